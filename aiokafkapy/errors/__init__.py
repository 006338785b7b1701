"""Every error of clients and brokers, in one tree; integrations derive theirs from it.

::

    KafkaError                              code, retriable, abortable, fatal, invalid_metadata, topic, partition,
     │                                      outcome_unknown, remedy
     ├─ BrokerError                         a broker's error code: one class each, e.g. MessageTooLargeError
     │   ├─ RetriableBrokerError            e.g. NotEnoughReplicasError
     │   │   └─ InvalidMetadataError        e.g. NotLeaderOrFollowerError
     │   └─ MessageTooLargeError
     │       └─ RecordTooLargeError         found on this side, with size and limit
     ├─ KafkaTimeoutError (TimeoutError)    DeliveryTimeout-, MetadataTimeout-, BufferExhausted-, FlushTimeout-,
     │                                      CloseTimeoutError
     ├─ KafkaConnectionError (ConnectionError)
     │   ├─ DisconnectedError
     │   └─ AuthenticationFailedError       SslAuthenticationFailed-; of a broker's code: SaslAuthenticationFailed-,
     │                                      UnsupportedSaslMechanism-, IllegalSaslStateError
     ├─ ConfigurationError (ValueError)
     ├─ SerializationError (ValueError)
     ├─ IllegalStateError (RuntimeError)    ProducerNotStarted-, ProducerClosed-, ForkedProducer-, WrongEventLoop-,
     │                                      IllegalTransitionError
     ├─ ProtocolError                       MalformedFrameError, CorrelationIdMismatchError
     ├─ MetadataNotReadyError
     ├─ TransactionAbortedError, GaplessGuaranteeError, PurgedError, RecordDroppedError, SpoolError,
     │  CircuitOpenError
     └─ SenderCrashedError

Codes and flags are those of Kafka's ``Errors``; ``for_code(n)`` finds a class and ``make(n, …)`` an instance.
"""

from .base import *  # noqa: F403
from .broker import *  # noqa: F403
from .local import *  # noqa: F403
