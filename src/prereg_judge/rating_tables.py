"""Ratings made of annotators' tables and of labellings with one label an item."""
