"""What is done while nobody asks: each job a module that plans units of work, and one that does them."""
