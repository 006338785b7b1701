"""``compression_type="auto"``: in come samples of the batches that were sent, out goes the codec that each topic's
batches get.

``codec_chooser`` decides, ``codec_sampler`` measures. Imported with ``compression_type="auto"`` only. Java has no
counterpart.
"""
