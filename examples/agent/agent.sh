#!/bin/sh
# An agent in a few lines, to try gdngen loop with: it changes one axis of the variant in variant.txt, another one in each iteration, and
# leaves alone what the prompt says was tried.
set -e
prompt=$(cat)
variant=$(cat variant.txt)
for move in solve=merge heads=2 decay=base2 kq=joined; do
    case "$prompt" in *"set $move"*) continue ;; esac
    echo "$variant,$move" > variant.txt
    cat > iteration.json <<PLAN
{"hypothesis": "set $move", "bottleneck": "what $move moves", "gain": "10%", "risk": "20%",
 "shortlist": [{"change": "$move", "gain": "10%"}, {"change": "chunk=128"}, {"change": "leaf=16"}],
 "next": {"change": "chunk=128", "gain": "10%", "risk": "30%", "command": "gdngen explain --spec tiny --variant $variant,chunk=128"}}
PLAN
    echo "variant.txt has $move now"
    exit 0
done
echo "nothing is left to try"
