"""Analysis of models, data, training and results, in numbers and figures."""
