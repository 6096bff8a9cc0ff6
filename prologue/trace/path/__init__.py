"""The program and the words of each range, and the verdict on ranges and the steps between them."""
