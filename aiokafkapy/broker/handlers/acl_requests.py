"""The common part of the APIs of ACLs: the authorizer, and a filter as a request has it.

Registers nothing.
"""

from __future__ import annotations

from ...errors import SecurityDisabledError
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import AclFilter, check_filter
from ..security.authorizer import Authorizer

__all__ = ["filter_of", "required_authorizer"]


def required_authorizer(context: RequestContext) -> Authorizer:
    """The authorizer. Raises SecurityDisabledError when there is none."""
    authorizer = context.state.authorizer
    if authorizer is None:
        raise SecurityDisabledError("No Authorizer is configured: DevBroker(authorizer=True) has one.")
    return authorizer


def filter_of(requested: Struct) -> AclFilter:
    """The filter of DescribeAcls, or one of DeleteAcls. Raises InvalidRequestError for a code that Kafka does not
    know.
    """
    return check_filter(
        resource_type=requested.resource_type_filter,
        name=requested.resource_name_filter,
        pattern_type=requested.pattern_type_filter,
        principal=requested.principal_filter,
        host=requested.host_filter,
        operation=requested.operation,
        permission=requested.permission_type,
    )
