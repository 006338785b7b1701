# Types of delivery_list.py for its compiled form. See there for what they mean.

from aiokafkapy.producer.deliveries.delivery cimport Delivery, new_delivery
from aiokafkapy.producer.deliveries.produce_request_result cimport ProduceRequestResult
