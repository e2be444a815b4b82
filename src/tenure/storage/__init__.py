"""Storages: one contract for a local disk, S3, HDFS and other object stores, and the blobs in them."""
