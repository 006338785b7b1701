"""``compression_type="auto"``: samples of the batches that were sent come in, and the codec of each topic's next
batches goes out.

``codec_chooser`` decides, ``codec_sampler`` measures. Imported with ``compression_type="auto"`` only. Java has no
counterpart.
"""
