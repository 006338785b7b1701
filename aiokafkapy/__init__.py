"""asyncio-native Kafka producer, embedded dev broker and Spark data source."""
