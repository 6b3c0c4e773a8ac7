"""Airola, Pahikkala, Salakoski, linear RankSVM in linearithmic time (2011): one file per figure."""
