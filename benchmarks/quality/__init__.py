"""The quality of recall, by long dialogues whose questions name the turns that answer them."""
