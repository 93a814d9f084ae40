"""Search and question answering over documents: a store of passages, retrievers, readers, and answers with sources."""
