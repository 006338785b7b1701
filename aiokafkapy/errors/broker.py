"""One class per error code of the protocol, named as ``org.apache.kafka.common.protocol.Errors`` names them.

A table in the form of classes: the code, the kind (its base says whether it is retriable and whether it asks for fresh
metadata; KAFKA-3.x to 4.1), and Kafka's sentence. ``for_code`` finds the class of a number; a number that
this version does not know becomes UnknownServerError with the number in its message.
"""

from __future__ import annotations

from .base import AuthenticationFailedError, BrokerError, InvalidMetadataError, RetriableBrokerError

__all__ = [
    "BrokerIdNotRegisteredError",
    "BrokerNotAvailableError",
    "ClusterAuthorizationFailedError",
    "ConcurrentTransactionsError",
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailableError",
    "CorruptMessageError",
    "DelegationTokenAuthDisabledError",
    "DelegationTokenAuthorizationFailedError",
    "DelegationTokenExpiredError",
    "DelegationTokenNotFoundError",
    "DelegationTokenOwnerMismatchError",
    "DelegationTokenRequestNotAllowedError",
    "DuplicateBrokerRegistrationError",
    "DuplicateResourceError",
    "DuplicateSequenceNumberError",
    "DuplicateVoterError",
    "ElectionNotNeededError",
    "EligibleLeadersNotAvailableError",
    "FeatureUpdateFailedError",
    "FencedInstanceIdError",
    "FencedLeaderEpochError",
    "FencedMemberEpochError",
    "FencedStateEpochError",
    "FetchSessionIdNotFoundError",
    "FetchSessionTopicIdError",
    "GroupAuthorizationFailedError",
    "GroupIdNotFoundError",
    "GroupMaxSizeReachedError",
    "GroupSubscribedToTopicError",
    "IllegalGenerationError",
    "IllegalSaslStateError",
    "InconsistentClusterIdError",
    "InconsistentGroupProtocolError",
    "InconsistentTopicIdError",
    "InconsistentVoterSetError",
    "IneligibleReplicaError",
    "InvalidCommitOffsetSizeError",
    "InvalidConfigError",
    "InvalidFetchSessionEpochError",
    "InvalidFetchSizeError",
    "InvalidGroupIdError",
    "InvalidPartitionsError",
    "InvalidPrincipalTypeError",
    "InvalidProducerEpochError",
    "InvalidProducerIdMappingError",
    "InvalidRecordError",
    "InvalidRecordStateError",
    "InvalidRegistrationError",
    "InvalidRegularExpressionError",
    "InvalidReplicaAssignmentError",
    "InvalidReplicationFactorError",
    "InvalidRequestError",
    "InvalidRequiredAcksError",
    "InvalidSessionTimeoutError",
    "InvalidShareSessionEpochError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "InvalidTransactionTimeoutError",
    "InvalidTxnStateError",
    "InvalidUpdateVersionError",
    "InvalidVoterKeyError",
    "KafkaStorageError",
    "LeaderNotAvailableError",
    "ListenerNotFoundError",
    "LogDirNotFoundError",
    "MemberIdRequiredError",
    "MessageTooLargeError",
    "MismatchedEndpointTypeError",
    "NetworkError",
    "NewLeaderElectedError",
    "NoReassignmentInProgressError",
    "NonEmptyGroupError",
    "NotControllerError",
    "NotCoordinatorError",
    "NotEnoughReplicasAfterAppendError",
    "NotEnoughReplicasError",
    "NotLeaderOrFollowerError",
    "OffsetMetadataTooLargeError",
    "OffsetMovedToTieredStorageError",
    "OffsetNotAvailableError",
    "OffsetOutOfRangeError",
    "OperationNotAttemptedError",
    "OutOfOrderSequenceNumberError",
    "PolicyViolationError",
    "PositionOutOfRangeError",
    "PreferredLeaderNotAvailableError",
    "PrincipalDeserializationFailureError",
    "ProducerFencedError",
    "ReassignmentInProgressError",
    "RebalanceInProgressError",
    "RebootstrapRequiredError",
    "RecordListTooLargeError",
    "ReplicaNotAvailableError",
    "RequestTimedOutError",
    "ResourceNotFoundError",
    "SaslAuthenticationFailedError",
    "SecurityDisabledError",
    "ShareSessionLimitReachedError",
    "ShareSessionNotFoundError",
    "SnapshotNotFoundError",
    "StaleBrokerEpochError",
    "StaleControllerEpochError",
    "StaleMemberEpochError",
    "StreamsInvalidTopologyEpochError",
    "StreamsInvalidTopologyError",
    "StreamsTopologyFencedError",
    "TelemetryTooLargeError",
    "ThrottlingQuotaExceededError",
    "TopicAlreadyExistsError",
    "TopicAuthorizationFailedError",
    "TopicDeletionDisabledError",
    "TransactionAbortableError",
    "TransactionCoordinatorFencedError",
    "TransactionalIdAuthorizationFailedError",
    "TransactionalIdNotFoundError",
    "UnacceptableCredentialError",
    "UnknownControllerIdError",
    "UnknownLeaderEpochError",
    "UnknownMemberIdError",
    "UnknownProducerIdError",
    "UnknownServerError",
    "UnknownSubscriptionIdError",
    "UnknownTopicIdError",
    "UnknownTopicOrPartitionError",
    "UnreleasedInstanceIdError",
    "UnstableOffsetCommitError",
    "UnsupportedAssignorError",
    "UnsupportedCompressionTypeError",
    "UnsupportedEndpointTypeError",
    "UnsupportedForMessageFormatError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "VoterNotFoundError",
    "for_code",
    "make",
]


class UnknownServerError(BrokerError):
    """The server experienced an unexpected error when processing the request."""

    code = -1


class OffsetOutOfRangeError(BrokerError):
    """The requested offset is not within the range of offsets maintained by the server."""

    code = 1


class CorruptMessageError(RetriableBrokerError):
    """This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, or…"""

    code = 2


class UnknownTopicOrPartitionError(InvalidMetadataError):
    """This server does not host this topic-partition."""

    code = 3


class InvalidFetchSizeError(BrokerError):
    """The requested fetch size is invalid."""

    code = 4


class LeaderNotAvailableError(InvalidMetadataError):
    """There is no leader for this topic-partition as we are in the middle of a leadership election."""

    code = 5


class NotLeaderOrFollowerError(InvalidMetadataError):
    """For requests intended only for the leader, this error indicates that the broker is not the current leader."""

    code = 6


class RequestTimedOutError(RetriableBrokerError):
    """The request timed out."""

    code = 7


class BrokerNotAvailableError(BrokerError):
    """The broker is not available."""

    code = 8


class ReplicaNotAvailableError(InvalidMetadataError):
    """The replica is not available for the requested topic-partition."""

    code = 9


class MessageTooLargeError(BrokerError):
    """The request included a message larger than the max message size the server will accept."""

    code = 10


class StaleControllerEpochError(BrokerError):
    """The controller moved to another broker."""

    code = 11


class OffsetMetadataTooLargeError(BrokerError):
    """The metadata field of the offset request was too large."""

    code = 12


class NetworkError(InvalidMetadataError):
    """The server disconnected before a response was received."""

    code = 13


class CoordinatorLoadInProgressError(RetriableBrokerError):
    """The coordinator is loading and hence can't process requests."""

    code = 14


class CoordinatorNotAvailableError(RetriableBrokerError):
    """The coordinator is not available."""

    code = 15


class NotCoordinatorError(RetriableBrokerError):
    """This is not the correct coordinator."""

    code = 16


class InvalidTopicError(BrokerError):
    """The request attempted to perform an operation on an invalid topic."""

    code = 17


class RecordListTooLargeError(BrokerError):
    """The request included message batch larger than the configured segment size on the server."""

    code = 18


class NotEnoughReplicasError(RetriableBrokerError):
    """Messages are rejected since there are fewer in-sync replicas than required."""

    code = 19


class NotEnoughReplicasAfterAppendError(RetriableBrokerError):
    """Messages are written to the log, but to fewer in-sync replicas than required."""

    code = 20


class InvalidRequiredAcksError(BrokerError):
    """Produce request specified an invalid value for required acks."""

    code = 21


class IllegalGenerationError(BrokerError):
    """Specified group generation id is not valid."""

    code = 22


class InconsistentGroupProtocolError(BrokerError):
    """The group member's supported protocols are incompatible with those of existing members or first group…"""

    code = 23


class InvalidGroupIdError(BrokerError):
    """The group id is invalid."""

    code = 24


class UnknownMemberIdError(BrokerError):
    """The coordinator is not aware of this member."""

    code = 25


class InvalidSessionTimeoutError(BrokerError):
    """The session timeout is not within the range allowed by the broker (as configured by…"""

    code = 26


class RebalanceInProgressError(BrokerError):
    """The group is rebalancing, so a rejoin is needed."""

    code = 27


class InvalidCommitOffsetSizeError(BrokerError):
    """The committing offset data size is not valid."""

    code = 28


class TopicAuthorizationFailedError(BrokerError):
    """Topic authorization failed."""

    code = 29


class GroupAuthorizationFailedError(BrokerError):
    """Group authorization failed."""

    code = 30


class ClusterAuthorizationFailedError(BrokerError):
    """Cluster authorization failed."""

    code = 31
    fatal = True


class InvalidTimestampError(BrokerError):
    """The timestamp of the message is out of acceptable range."""

    code = 32


class UnsupportedSaslMechanismError(AuthenticationFailedError, BrokerError):
    """The broker does not support the requested SASL mechanism."""

    code = 33


class IllegalSaslStateError(AuthenticationFailedError, BrokerError):
    """Request is not valid given the current SASL state."""

    code = 34


class UnsupportedVersionError(BrokerError):
    """The version of API is not supported."""

    code = 35
    fatal = True


class TopicAlreadyExistsError(BrokerError):
    """Topic with this name already exists."""

    code = 36


class InvalidPartitionsError(BrokerError):
    """Number of partitions is below 1."""

    code = 37


class InvalidReplicationFactorError(BrokerError):
    """Replication factor is below 1 or larger than the number of available brokers."""

    code = 38


class InvalidReplicaAssignmentError(BrokerError):
    """Replica assignment is invalid."""

    code = 39


class InvalidConfigError(BrokerError):
    """Configuration is invalid."""

    code = 40


class NotControllerError(RetriableBrokerError):
    """This is not the correct controller for this cluster."""

    code = 41


class InvalidRequestError(BrokerError):
    """This most likely occurs because of a request being malformed by the client library or the message was sent…"""

    code = 42


class UnsupportedForMessageFormatError(BrokerError):
    """The message format version on the broker does not support the request."""

    code = 43
    fatal = True


class PolicyViolationError(BrokerError):
    """Request parameters do not satisfy the configured policy."""

    code = 44


class OutOfOrderSequenceNumberError(BrokerError):
    """The broker received an out of order sequence number."""

    code = 45
    abortable = True


class DuplicateSequenceNumberError(BrokerError):
    """The broker received a duplicate sequence number."""

    code = 46


class InvalidProducerEpochError(BrokerError):
    """Producer attempted to produce with an old epoch."""

    code = 47
    abortable = True


class InvalidTxnStateError(BrokerError):
    """The producer attempted a transactional operation in an invalid state."""

    code = 48
    fatal = True


class InvalidProducerIdMappingError(BrokerError):
    """The producer attempted to use a producer id which is not currently assigned to its transactional id."""

    code = 49
    fatal = True


class InvalidTransactionTimeoutError(BrokerError):
    """The transaction timeout is larger than the maximum value allowed by the broker (as configured by…"""

    code = 50
    fatal = True


class ConcurrentTransactionsError(RetriableBrokerError):
    """The producer attempted to update a transaction while another concurrent operation on the same transaction…"""

    code = 51


class TransactionCoordinatorFencedError(BrokerError):
    """Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator…"""

    code = 52
    fatal = True


class TransactionalIdAuthorizationFailedError(BrokerError):
    """Transactional Id authorization failed."""

    code = 53
    fatal = True


class SecurityDisabledError(BrokerError):
    """Security features are disabled."""

    code = 54


class OperationNotAttemptedError(BrokerError):
    """The broker did not attempt to execute this operation."""

    code = 55


class KafkaStorageError(InvalidMetadataError):
    """Disk error when trying to access log file on the disk."""

    code = 56


class LogDirNotFoundError(BrokerError):
    """The user-specified log directory is not found in the broker config."""

    code = 57


class SaslAuthenticationFailedError(AuthenticationFailedError, BrokerError):
    """SASL Authentication failed."""

    code = 58


class UnknownProducerIdError(BrokerError):
    """This exception is raised by the broker if it could not locate the producer metadata associated with the…"""

    code = 59
    abortable = True


class ReassignmentInProgressError(BrokerError):
    """A partition reassignment is in progress."""

    code = 60


class DelegationTokenAuthDisabledError(BrokerError):
    """Delegation Token feature is not enabled."""

    code = 61


class DelegationTokenNotFoundError(BrokerError):
    """Delegation Token is not found on server."""

    code = 62


class DelegationTokenOwnerMismatchError(BrokerError):
    """Specified Principal is not valid Owner/Renewer."""

    code = 63


class DelegationTokenRequestNotAllowedError(BrokerError):
    """Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token…"""

    code = 64


class DelegationTokenAuthorizationFailedError(BrokerError):
    """Delegation Token authorization failed."""

    code = 65


class DelegationTokenExpiredError(BrokerError):
    """Delegation Token is expired."""

    code = 66


class InvalidPrincipalTypeError(BrokerError):
    """Supplied principalType is not supported."""

    code = 67


class NonEmptyGroupError(BrokerError):
    """The group is not empty."""

    code = 68


class GroupIdNotFoundError(BrokerError):
    """The group id does not exist."""

    code = 69


class FetchSessionIdNotFoundError(RetriableBrokerError):
    """The fetch session ID was not found."""

    code = 70


class InvalidFetchSessionEpochError(RetriableBrokerError):
    """The fetch session epoch is invalid."""

    code = 71


class ListenerNotFoundError(InvalidMetadataError):
    """There is no listener on the leader broker that matches the listener on which metadata request was processed."""

    code = 72


class TopicDeletionDisabledError(BrokerError):
    """Topic deletion is disabled."""

    code = 73


class FencedLeaderEpochError(InvalidMetadataError):
    """The leader epoch in the request is older than the epoch on the broker."""

    code = 74


class UnknownLeaderEpochError(RetriableBrokerError):
    """The leader epoch in the request is newer than the epoch on the broker."""

    code = 75


class UnsupportedCompressionTypeError(BrokerError):
    """The requesting client does not support the compression type of given partition."""

    code = 76


class StaleBrokerEpochError(BrokerError):
    """Broker epoch has changed."""

    code = 77


class OffsetNotAvailableError(RetriableBrokerError):
    """The leader high watermark has not caught up from a recent leader election so the offsets cannot be…"""

    code = 78


class MemberIdRequiredError(BrokerError):
    """The group member needs to have a valid member id before actually entering a consumer group."""

    code = 79


class PreferredLeaderNotAvailableError(InvalidMetadataError):
    """The preferred leader was not available."""

    code = 80


class GroupMaxSizeReachedError(BrokerError):
    """The group has reached its maximum size."""

    code = 81


class FencedInstanceIdError(BrokerError):
    """The broker rejected this static consumer since another consumer with the same group.instance.id has…"""

    code = 82


class EligibleLeadersNotAvailableError(InvalidMetadataError):
    """Eligible topic partition leaders are not available."""

    code = 83


class ElectionNotNeededError(InvalidMetadataError):
    """Leader election not needed for topic partition."""

    code = 84


class NoReassignmentInProgressError(BrokerError):
    """No partition reassignment is in progress."""

    code = 85


class GroupSubscribedToTopicError(BrokerError):
    """Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."""

    code = 86


class InvalidRecordError(BrokerError):
    """This record has failed the validation on broker and hence will be rejected."""

    code = 87


class UnstableOffsetCommitError(RetriableBrokerError):
    """There are unstable offsets that need to be cleared."""

    code = 88


class ThrottlingQuotaExceededError(RetriableBrokerError):
    """The throttling quota has been exceeded."""

    code = 89


class ProducerFencedError(BrokerError):
    """There is a newer producer with the same transactionalId which fences the current one."""

    code = 90
    fatal = True


class ResourceNotFoundError(BrokerError):
    """A request illegally referred to a resource that does not exist."""

    code = 91


class DuplicateResourceError(BrokerError):
    """A request illegally referred to the same resource twice."""

    code = 92


class UnacceptableCredentialError(BrokerError):
    """Requested credential would not meet criteria for acceptability."""

    code = 93


class InconsistentVoterSetError(BrokerError):
    """Indicates that either the sender or the recipient of a voter-only request is not one of the expected voters."""

    code = 94


class InvalidUpdateVersionError(BrokerError):
    """The given update version was invalid."""

    code = 95


class FeatureUpdateFailedError(BrokerError):
    """Unable to update finalized features due to an unexpected server error."""

    code = 96


class PrincipalDeserializationFailureError(BrokerError):
    """Request principal deserialization failed during forwarding."""

    code = 97


class SnapshotNotFoundError(BrokerError):
    """Requested snapshot was not found."""

    code = 98


class PositionOutOfRangeError(BrokerError):
    """Requested position is not greater than or equal to zero, and less than the size of the snapshot."""

    code = 99


class UnknownTopicIdError(InvalidMetadataError):
    """This server does not host this topic ID."""

    code = 100


class DuplicateBrokerRegistrationError(BrokerError):
    """This broker ID is already in use."""

    code = 101


class BrokerIdNotRegisteredError(BrokerError):
    """The given broker ID was not registered."""

    code = 102


class InconsistentTopicIdError(InvalidMetadataError):
    """The log's topic ID did not match the topic ID in the request."""

    code = 103


class InconsistentClusterIdError(BrokerError):
    """The clusterId in the request does not match that found on the server."""

    code = 104


class TransactionalIdNotFoundError(BrokerError):
    """The transactionalId could not be found."""

    code = 105


class FetchSessionTopicIdError(RetriableBrokerError):
    """The fetch session encountered inconsistent topic ID usage."""

    code = 106


class IneligibleReplicaError(BrokerError):
    """The new ISR contains at least one ineligible replica."""

    code = 107


class NewLeaderElectedError(BrokerError):
    """The AlterPartition request successfully updated the partition state but the leader has changed."""

    code = 108


class OffsetMovedToTieredStorageError(BrokerError):
    """The requested offset is moved to tiered storage."""

    code = 109


class FencedMemberEpochError(BrokerError):
    """The member epoch is fenced by the group coordinator. The member must abandon all its partitions and rejoin."""

    code = 110


class UnreleasedInstanceIdError(BrokerError):
    """The instance ID is still used by another member in the consumer group. That member must leave first."""

    code = 111


class UnsupportedAssignorError(BrokerError):
    """The assignor or its version range is not supported by the consumer group."""

    code = 112


class StaleMemberEpochError(BrokerError):
    """The member epoch is stale."""

    code = 113


class MismatchedEndpointTypeError(BrokerError):
    """The request was sent to an endpoint of the wrong type."""

    code = 114


class UnsupportedEndpointTypeError(BrokerError):
    """This endpoint type is not supported yet."""

    code = 115


class UnknownControllerIdError(BrokerError):
    """This controller ID is not known."""

    code = 116


class UnknownSubscriptionIdError(BrokerError):
    """Client sent a push telemetry request with an invalid or outdated subscription ID."""

    code = 117


class TelemetryTooLargeError(BrokerError):
    """Client sent a push telemetry request larger than the maximum size the broker will accept."""

    code = 118


class InvalidRegistrationError(BrokerError):
    """The controller has considered the broker registration to be invalid."""

    code = 119


class TransactionAbortableError(BrokerError):
    """The server encountered an error with the transaction."""

    code = 120
    abortable = True


class InvalidRecordStateError(BrokerError):
    """The record state is invalid. The acknowledgement of delivery could not be completed."""

    code = 121


class ShareSessionNotFoundError(RetriableBrokerError):
    """The share session was not found."""

    code = 122


class InvalidShareSessionEpochError(RetriableBrokerError):
    """The share session epoch is invalid."""

    code = 123


class FencedStateEpochError(BrokerError):
    """The share coordinator rejected the request because the share-group state epoch did not match."""

    code = 124


class InvalidVoterKeyError(BrokerError):
    """The voter key doesn't match the receiving replica's key."""

    code = 125


class DuplicateVoterError(BrokerError):
    """The voter is already part of the set of voters."""

    code = 126


class VoterNotFoundError(BrokerError):
    """The voter is not part of the set of voters."""

    code = 127


class InvalidRegularExpressionError(BrokerError):
    """The regular expression is not valid."""

    code = 128


class RebootstrapRequiredError(BrokerError):
    """Client metadata is stale. The client should rebootstrap to obtain new metadata."""

    code = 129


class StreamsInvalidTopologyError(BrokerError):
    """The supplied topology is invalid."""

    code = 130


class StreamsInvalidTopologyEpochError(BrokerError):
    """The supplied topology epoch is invalid."""

    code = 131


class StreamsTopologyFencedError(BrokerError):
    """The supplied topology epoch is outdated."""

    code = 132


class ShareSessionLimitReachedError(RetriableBrokerError):
    """The limit of share sessions has been reached."""

    code = 133


_BY_CODE: dict[int, type[BrokerError]] = {
    error.code: error
    for error in (
        BrokerError.__subclasses__() + RetriableBrokerError.__subclasses__() + InvalidMetadataError.__subclasses__()
    )
    if error.code is not None
}


def for_code(code: int) -> type[BrokerError]:
    """The error class of a code; UnknownServerError when this version does not know the code (0 is not an error)."""
    return _BY_CODE.get(int(code), UnknownServerError)


def make(
    code: int, message: str | None = None, *, topic: str | None = None, partition: int | None = None
) -> BrokerError:
    """An instance for a code, with the broker's own message if it gave one, and the place of the error."""
    error = for_code(code)
    text = message or error.summary()
    if error.code != int(code):
        text = f"error code {int(code)}, which this version does not know" + (f": {message}" if message else "")
    place = topic if topic is None or partition is None else f"{topic}-{partition}"
    return error(f"{place}: {text}" if place else text, topic=topic, partition=partition)
