"""A set of texts through a model: sources, batches, what is kept of each shard, and the engines that run shards."""
