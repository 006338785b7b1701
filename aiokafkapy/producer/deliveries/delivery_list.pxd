# Types of delivery_list.py for its compiled form. They are documented there.

from aiokafkapy.producer.deliveries.delivery cimport Delivery, new_delivery
from aiokafkapy.producer.deliveries.produce_request_result cimport ProduceRequestResult
