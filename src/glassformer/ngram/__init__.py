"""N-gram language models: counted, estimated by Kneser-Ney, pruned, stored, and asked for the next word."""
