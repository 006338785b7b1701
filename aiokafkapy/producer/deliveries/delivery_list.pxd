# Types of delivery_list.py for its compiled form. See there for what they mean.

from aiokafkapy.producer.deliveries.delivery cimport Delivery, ProduceRequestResult, new_delivery
