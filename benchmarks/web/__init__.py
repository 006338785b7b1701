"""A web service that sends each request's body to Kafka, with one client or another inside, and its load."""
