"""What is put on disk for the volumes of pods.

`contents` says which files a config map, secret, projection or the downward API gives (pure);
`atomic` writes them so that a reader sees all of the old or all of the new; `placing` has a row
for each kind of volume; `claims` maps claims to folders. What is mounted where is `ordering`'s.
"""
