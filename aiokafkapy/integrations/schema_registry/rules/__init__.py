"""The rules of data contracts, run: CEL, JSONata, field-level encryption.

A message comes in, with its schema's rules; the changed message goes out, or an error that names the rule.
``running`` (the choice and order of rules, and the action after a failure), ``fields`` (a message's fields and their
tags), ``avro_fields``, ``json_fields`` and ``protobuf_fields`` (the ways through a message), ``cel``, ``jsonata_rules``
and ``encryption`` (the executors) over ``dek_registry``, ``kms`` and ``ciphers``. Confluent's counterpart is its
package ``schema_registry.rules``. Needs ``pip install 'aiokafkapy[schema-rules]'``.

Rule: a library is imported with the first rule that needs it.
"""
