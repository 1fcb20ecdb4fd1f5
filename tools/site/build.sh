#!/usr/bin/env bash
# Builds the site: tools/site/build.sh FOLDER writes FOLDER/html. What is wrong with a page or a link is an error.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$1
rm -rf "$folder"
python tools/site/pages.py "$folder"
zensical build --strict --config-file "$folder/mkdocs.yml"
# Each page is there as Markdown too.
(cd "$folder/pages" && find . -name '*.md' -exec cp --parents -t "$(cd - >/dev/null && cd "$folder/html" && pwd)" {} +)
