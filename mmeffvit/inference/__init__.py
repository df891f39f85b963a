"""Inference of trained models on images and videos."""
