"""The remedy of each error: one line, which ``KafkaError.remedy`` returns.

A table by the classes' names. It is loaded when somebody asks: an error that is handled needs no remedy.
docs/troubleshooting.md has it too.

Rules: every public error has a line of its own; it says what to do and not what happened, which the error's own text
does; options have the names that they have here, brokers' have Kafka's.
"""

from __future__ import annotations

from typing import Final

__all__ = ["REMEDIES", "remedy_of"]

_WAIT: Final = "nothing: it is retried; if it lasts, look at the brokers' logs"
_GRANT: Final = "grant this client's principal the right with kafka-acls, or connect as another"
_GROUP: Final = "nothing, where a consumer's client gets it: it joins its group again"
_BROKERS: Final = "look at the brokers' logs: it belongs to requests between brokers and controllers"
_SESSION: Final = "nothing: the reader begins a new session"
_TOKEN: Final = "get a new delegation token and give it to update_credentials()"
_REPORT: Final = "report it: it is a bug of aiokafkapy, or of a proxy between it and the broker"
_ADMIN: Final = "correct the request: the message says what is wrong with it"
_UPGRADE: Final = "upgrade the brokers, or do without the option that needs the newer request"
_FRESH: Final = "make a new producer: this one can only be closed"

REMEDIES: Final[dict[str, str]] = {
    # bases
    "KafkaError": "read the message: it says what happened, and where",
    "BrokerError": "read the message: it is the broker's own",
    "RetriableBrokerError": _WAIT,
    "InvalidMetadataError": _WAIT,
    "KafkaConnectionError": "`aiokafkapy doctor` says which step of connecting fails",
    "AuthenticationFailedError": "correct the credentials, or the listener's security; `aiokafkapy doctor` tells which",
    # found on this side
    "KafkaTimeoutError": "look at the cause in the message; `aiokafkapy doctor` looks at the way to each broker",
    "DeliveryTimeoutError": "send it again if it may be written twice; raise delivery_timeout_ms for longer outages",
    "MetadataTimeoutError": "`aiokafkapy doctor` looks at the brokers; of a topic, check the name and that it exists",
    "BufferExhaustedError": "send slower, raise buffer_memory or max_block_ms, or choose an overflow policy",
    "FlushTimeoutError": "give flush() more time, or look for the reason in producer.health",
    "CloseTimeoutError": "give close() more time; with undelivered_path a service keeps its undelivered records",
    "MetadataNotReadyError": "await producer.partitions_for(topic) or warm_up(topic) once, or use enqueue()",
    "DisconnectedError": "nothing: it is retried; if it lasts, `aiokafkapy doctor`",
    "SslAuthenticationFailedError": "check ssl_truststore_location, and the certificate's names: `aiokafkapy doctor`",
    "ConfigurationError": "correct the option that the message names; `aiokafkapy explain` shows where each is from",
    "IllegalStateError": "call it in the state that the message names",
    "IllegalTransitionError": "report it: it is a bug of aiokafkapy",
    "ProducerNotStartedError": "use the producer in `async with producer:`, or await producer.start() first",
    "ProducerClosedError": _FRESH,
    "ForkedProducerError": "make and start a producer in each process, after the fork",
    "WrongEventLoopError": "make a producer for each loop; send_from_thread() is for other threads",
    "TransactionAbortedError": "send it again in the next transaction",
    "GaplessGuaranteeError": "deal with the record that failed, the cause, then producer.resume() and send both again",
    "PurgedError": "nothing: purge() was called; with outcome_unknown it may have been written",
    "RecordDroppedError": "nothing, where the overflow policy may drop; else raise buffer_memory or let it wait",
    "SpoolError": "give the spool's folder room, the rights it needs, and one producer; then call again",
    "CircuitOpenError": "wait for retry_in seconds, and mend the cause; other topics are not affected",
    "SenderCrashedError": f"{_FRESH}; report the cause",
    "SerializationError": "correct the data, or the serializer, that the message names; another attempt fails again",
    "RecordTooLargeError": "split the record, or raise max_request_size and the topic's max.message.bytes together",
    "ProtocolError": _REPORT,
    "MalformedFrameError": "check that the port is a Kafka broker's, with the listener's security_protocol",
    "CorrelationIdMismatchError": _REPORT,
    # records
    "CorruptMessageError": "nothing: it is sent again; on a compacted topic give each record a key",
    "MessageTooLargeError": "split the record, or raise the topic's max.message.bytes",
    "RecordListTooLargeError": "make batch_size smaller than the topic's segment.bytes, or raise that",
    "InvalidRecordError": "give records of a compacted topic a key, and check the topic's rules for timestamps",
    "InvalidTimestampError": "correct the record's timestamp, or the topic's message.timestamp.before/after.max.ms",
    "UnsupportedCompressionTypeError": "choose another compression_type",
    "UnsupportedForMessageFormatError": "raise message.format.version, or do without headers and idempotence",
    "InvalidRequiredAcksError": "set acks to 0, 1 or all",
    "NotEnoughReplicasError": "bring the replicas back; min.insync.replicas says how many acks=all needs",
    "NotEnoughReplicasAfterAppendError": "bring the replicas back; without idempotence the retry is written twice",
    "KafkaStorageError": "look at the broker's disk; the partition's other replicas take over",
    "OffsetOutOfRangeError": "begin at the earliest or latest offset: those records are deleted, or not yet written",
    "OffsetMovedToTieredStorageError": "nothing: the reader looks for the local start",
    # topics and leaders
    "UnknownTopicOrPartitionError": "create the topic, check its name, or the right to describe it",
    "UnknownTopicIdError": "nothing: metadata is fetched again; the topic was recreated",
    "InconsistentTopicIdError": "nothing: metadata is fetched again; the topic was recreated",
    "LeaderNotAvailableError": "nothing: it is retried; if it lasts, bring the partition's replicas back",
    "NotLeaderOrFollowerError": "nothing: metadata is fetched again, and the record goes to the new leader",
    "ReplicaNotAvailableError": _WAIT,
    "BrokerNotAvailableError": "bring the broker back",
    "ListenerNotFoundError": "give every broker the listener that this client uses",
    "FencedLeaderEpochError": _WAIT,
    "UnknownLeaderEpochError": _WAIT,
    "OffsetNotAvailableError": _WAIT,
    "PreferredLeaderNotAvailableError": "bring the partition's first replica back",
    "EligibleLeadersNotAvailableError": "bring a replica in sync back, or elect an unclean leader and lose records",
    "ElectionNotNeededError": "nothing: the partition has the leader that was wanted",
    "InvalidTopicError": "correct the topic's name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'",
    "TopicAlreadyExistsError": "nothing, where any topic of the name will do; else delete it first",
    "InvalidPartitionsError": _ADMIN,
    "InvalidReplicationFactorError": "ask for at most as many replicas as there are brokers",
    "InvalidReplicaAssignmentError": _ADMIN,
    "InvalidConfigError": _ADMIN,
    "PolicyViolationError": "keep to the cluster's policy, which the message names",
    "TopicDeletionDisabledError": "set delete.topic.enable on the brokers",
    "ReassignmentInProgressError": "wait until the reassignment is done, or cancel it",
    "NoReassignmentInProgressError": "nothing: there is none to cancel",
    # requests and brokers
    "UnknownServerError": "look at the broker's log: it has the exception",
    "RequestTimedOutError": "nothing: it is retried; if it lasts, the partition's replicas are slow or away",
    "NetworkError": _WAIT,
    "NotControllerError": _WAIT,
    "UnsupportedVersionError": _UPGRADE,
    "InvalidRequestError": _REPORT,
    "ThrottlingQuotaExceededError": "ask less often, or have the client's quota raised",
    "RebootstrapRequiredError": "nothing: the client begins at bootstrap_servers again",
    "MismatchedEndpointTypeError": "connect to a broker's listener, and not to a controller's",
    "UnsupportedEndpointTypeError": "connect to a broker's listener, and not to a controller's",
    "OperationNotAttemptedError": "correct the other errors of the same request",
    "ResourceNotFoundError": _ADMIN,
    "DuplicateResourceError": _ADMIN,
    "LogDirNotFoundError": _ADMIN,
    "InvalidUpdateVersionError": _ADMIN,
    "FeatureUpdateFailedError": "look at the controller's log",
    "UnknownSubscriptionIdError": "nothing: the subscription to metrics is asked for again",
    "TelemetryTooLargeError": "subscribe to fewer metrics, or raise the broker's telemetry.max.bytes",
    # rights and credentials
    "TopicAuthorizationFailedError": _GRANT,
    "GroupAuthorizationFailedError": _GRANT,
    "ClusterAuthorizationFailedError": "grant IDEMPOTENT_WRITE on the cluster, then make a new producer",
    "TransactionalIdAuthorizationFailedError": "grant WRITE on the transactional id, then make a new producer",
    "SaslAuthenticationFailedError": "correct the password or token; update_credentials() takes another",
    "UnsupportedSaslMechanismError": "set sasl_mechanism to one that the listener has; the message lists them",
    "IllegalSaslStateError": "check security_protocol against the listener's",
    "SecurityDisabledError": "give the brokers an authorizer",
    "InvalidPrincipalTypeError": _ADMIN,
    "PrincipalDeserializationFailureError": _BROKERS,
    "UnacceptableCredentialError": "choose a longer password, or more iterations",
    "DelegationTokenAuthDisabledError": "set delegation.token.secret.key on the brokers",
    "DelegationTokenNotFoundError": _TOKEN,
    "DelegationTokenOwnerMismatchError": "ask as the token's owner, or as one of its renewers",
    "DelegationTokenRequestNotAllowedError": "ask over SASL or mutual TLS, and not with a token",
    "DelegationTokenAuthorizationFailedError": _GRANT,
    "DelegationTokenExpiredError": _TOKEN,
    # idempotence and transactions
    "OutOfOrderSequenceNumberError": "abort the transaction and try again; without one, look for expired records",
    "DuplicateSequenceNumberError": "nothing: the record was written before",
    "InvalidProducerEpochError": "abort the transaction and try again; transaction_timeout_ms may have been too short",
    "UnknownProducerIdError": "abort the transaction and try again; the topic's retention is shorter than the pause",
    "InvalidTxnStateError": "make a new producer: another one may have the same transactional_id",
    "InvalidProducerIdMappingError": "make a new producer: transactional.id.expiration.ms has passed",
    "InvalidTransactionTimeoutError": "set transaction_timeout_ms to at most the brokers' transaction.max.timeout.ms",
    "ConcurrentTransactionsError": "nothing: it is retried until the transaction before has ended",
    "TransactionCoordinatorFencedError": _FRESH,
    "TransactionAbortableError": "abort the transaction and try again, as producer.transactions() does",
    "ProducerFencedError": "end this instance: another one has taken over its transactional_id",
    "TransactionalIdNotFoundError": "check the transactional id: the coordinator does not know it",
    "CoordinatorLoadInProgressError": _WAIT,
    "CoordinatorNotAvailableError": _WAIT,
    "NotCoordinatorError": _WAIT,
    # groups
    "OffsetMetadataTooLargeError": "commit less metadata, or raise offset.metadata.max.bytes",
    "InvalidCommitOffsetSizeError": "commit fewer offsets at once",
    "IllegalGenerationError": "abort the transaction and read again: the group has moved the partitions",
    "UnknownMemberIdError": "abort the transaction and read again: the group has moved the partitions",
    "FencedInstanceIdError": "give each consumer a group.instance.id of its own",
    "RebalanceInProgressError": "abort the transaction and read again: the group has moved the partitions",
    "InconsistentGroupProtocolError": "give all consumers of the group one partition.assignment.strategy",
    "InvalidGroupIdError": "give the group a name",
    "InvalidSessionTimeoutError": "set session.timeout.ms within the brokers' group.min/max.session.timeout.ms",
    "MemberIdRequiredError": _GROUP,
    "GroupMaxSizeReachedError": "raise group.max.size, or run fewer consumers",
    "NonEmptyGroupError": "stop the group's consumers first",
    "GroupIdNotFoundError": "check the group's name",
    "GroupSubscribedToTopicError": "stop the group's consumers of the topic first",
    "UnstableOffsetCommitError": _WAIT,
    "FencedMemberEpochError": _GROUP,
    "UnreleasedInstanceIdError": "stop the other consumer with this group.instance.id",
    "UnsupportedAssignorError": "choose an assignor that the brokers have",
    "StaleMemberEpochError": _GROUP,
    "InvalidRegularExpressionError": "correct the expression: brokers read it with RE2/J",
    # readers
    "InvalidFetchSizeError": "set the fetch size to 1 or more",
    "FetchSessionIdNotFoundError": _SESSION,
    "InvalidFetchSessionEpochError": _SESSION,
    "FetchSessionTopicIdError": _SESSION,
    "ShareSessionNotFoundError": _SESSION,
    "InvalidShareSessionEpochError": _SESSION,
    "ShareSessionLimitReachedError": "run fewer consumers of share groups, or raise the brokers' limit",
    "InvalidRecordStateError": "nothing: the record was given to another consumer of the share group",
    "FencedStateEpochError": _BROKERS,
    # Kafka Streams
    "StreamsInvalidTopologyError": "correct the topology",
    "StreamsInvalidTopologyEpochError": "give all instances of the application one topology",
    "StreamsTopologyFencedError": "restart the instance with the newer topology",
    # brokers among themselves
    "StaleControllerEpochError": _BROKERS,
    "StaleBrokerEpochError": _BROKERS,
    "InconsistentVoterSetError": _BROKERS,
    "SnapshotNotFoundError": _BROKERS,
    "PositionOutOfRangeError": _BROKERS,
    "DuplicateBrokerRegistrationError": "give each broker a node.id of its own",
    "BrokerIdNotRegisteredError": _BROKERS,
    "InconsistentClusterIdError": _BROKERS,
    "IneligibleReplicaError": _BROKERS,
    "NewLeaderElectedError": _BROKERS,
    "UnknownControllerIdError": _BROKERS,
    "InvalidRegistrationError": _BROKERS,
    "InvalidVoterKeyError": _BROKERS,
    "DuplicateVoterError": _BROKERS,
    "VoterNotFoundError": _BROKERS,
}


def remedy_of(error: type[BaseException]) -> str:
    """The line of an error's class, or of the nearest of its bases that has one; empty for other errors."""
    return next((REMEDIES[base.__name__] for base in error.__mro__ if base.__name__ in REMEDIES), "")
