/**
 * Read-only flags of programs that read files and texts. Omitted flags write a file (`sort -o`, `tree -o`, `file -C`),
 * run a program (`sort --compress-program`, `rg --pre`, `diff -l`), change a file's times (`file -p`) or have another
 * meaning on another system.
 */
import { makeTable } from "../Command.ts"
import { type Grammar, makeGrammar } from "./FlagGrammar.ts"

const makeFileGrammar = (flags: string): Grammar => makeGrammar(flags, { open: "files" })
const makeValueGrammar = (flags: string): Grammar => makeGrammar(flags, { open: "values" })

const sums = `-bctqwz --binary --check --text --quiet --status --strict --warn --zero --tag --ignore-missing`

const grep = `
  -nrRivclLwxoqshHEFGPaIzZTUuby -A=# -B=# -C=# -m=# -e=* -f= -d= -D= -# --include=* --exclude=* --exclude-dir=*
  --exclude-from= --color[=] --colour[=] --line-number --recursive --dereference-recursive --ignore-case
  --no-ignore-case --invert-match --count --files-with-matches --files-without-match --word-regexp --line-regexp
  --only-matching --quiet --silent --no-messages --no-filename --with-filename --extended-regexp --fixed-strings
  --basic-regexp --perl-regexp --text --null --null-data --initial-tab --byte-offset --label= --line-buffered
  --after-context=# --before-context=# --context=# --max-count=# --regexp=* --file= --binary-files= --directories=
  --devices= --binary
`

const ripgrep = `
  -nNivclwxoqsSFUPaLuHIp0. -A=# -B=# -C=# -m=# -M=# -j=# -d=# -e=* -f= -g=* -t= -T= -r=* -E= -# --glob=* --iglob=*
  --type= --type-not= --type-add= --type-list --files --files-with-matches --files-without-match --count
  --count-matches --line-number --no-line-number --ignore-case --smart-case --case-sensitive --fixed-strings
  --word-regexp --line-regexp --only-matching --invert-match --hidden --no-hidden --no-ignore --no-ignore-vcs
  --no-ignore-parent --no-ignore-global --no-ignore-dot --no-ignore-exclude --no-ignore-files --ignore-file=
  --unrestricted --follow --multiline --multiline-dotall --pcre2 --text --binary --heading --no-heading --color=
  --colors= --column --no-column --context=# --after-context=# --before-context=# --max-count=# --max-depth=#
  --maxdepth=# --max-columns=# --max-columns-preview --max-filesize=# --json --stats --sort= --sortr= --sort-files
  --replace=* --regexp=* --file= --quiet --no-messages --null --null-data --passthru --passthrough --trim --vimgrep
  --pretty --with-filename --no-filename --one-file-system --threads=# --encoding= --engine= --crlf --byte-offset
  --context-separator=* --field-match-separator=* --field-context-separator=* --path-separator= --line-buffered
  --block-buffered --no-config --no-mmap --mmap --no-unicode --include-zero --glob-case-insensitive --no-require-git
  --debug --trace
`

const difference = `
  -ucrqsNwbBiyapdtTEZ -U=# -C=# -W=# -x=* -X= -L= -I=* -F=* --unified[=] --context[=] --brief --recursive --new-file
  --report-identical-files --side-by-side --suppress-common-lines --left-column --width=# --ignore-case
  --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-trailing-space --ignore-tab-expansion
  --ignore-matching-lines=* --text --exclude=* --exclude-from= --color[=] --label= --no-dereference --strip-trailing-cr
  --minimal --expand-tabs --initial-tab --show-c-function --show-function-line=* --normal --speed-large-files
  --unidirectional-new-file --ignore-file-name-case
`

const listing = `
  -aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1 -I=* -T=# -w=# --all --almost-all --author --escape --block-size=
  --ignore-backups --color[=] --directory --classify[=] --file-type --full-time --group-directories-first --no-group
  --human-readable --si --dereference-command-line --dereference-command-line-symlink-to-dir --hide=* --hyperlink[=]
  --indicator-style= --inode --ignore=* --kibibytes --dereference --numeric-uid-gid --literal --hide-control-chars
  --show-control-chars --quote-name --quoting-style= --reverse --recursive --size --sort= --time= --time-style=
  --tabsize=# --width=# --context --zero --format=
`

const jq = `
  -rcnseSMCaj -R --arg:: --argjson:: --slurpfile:: --rawfile:: --args --jsonargs --tab --indent: --raw-output
  --compact-output --null-input --slurp --exit-status --sort-keys --monochrome-output --color-output --ascii-output
  --join-output --raw-input --raw-output0 --seq --stream --stream-errors --unbuffered -f: --from-file:
`

/** Read-only flags of programs that show or inspect files and texts. */
export const filePrograms = makeTable<Grammar>([
  ["ls dir vdir", makeValueGrammar(listing)],
  ["pwd", makeValueGrammar("-LP --logical --physical")],
  [
    "cat",
    makeFileGrammar(`
    -AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting
  `)
  ],
  ["head", makeFileGrammar("-qvz -c=* -n=* -# --bytes= --lines= --quiet --silent --verbose --zero-terminated")],
  [
    "tail",
    makeFileGrammar(`
    -fFqrvz -c=* -n=* -s=# -# --bytes= --lines= --follow[=] --retry --max-unchanged-stats=# --pid=# --quiet --silent
    --sleep-interval=# --verbose --zero-terminated
  `)
  ],
  ["wc", makeValueGrammar("-clmLw --bytes --chars --lines --words --max-line-length --files0-from= --total=")],
  [
    "nl",
    makeFileGrammar(`
    -p -b= -d= -f= -h= -i=# -l=# -n= -s= -v=# -w=# --body-numbering= --number-format= --number-separator=
    --number-width=#
  `)
  ],
  ["tac", makeFileGrammar("-br -s=* --before --regex --separator=")],
  ["rev", makeFileGrammar("")],
  ["fold", makeFileGrammar("-bs -w=# -# --bytes --spaces --width=#")],
  [
    "column",
    makeFileGrammar(`
    -teJxnLd -s= -o= -c=# -N= -R= -T= -H= -W= -C= -O= -E= -n= --table --separator= --output-separator= --json
  `)
  ],
  [
    "cut",
    makeFileGrammar(`
    -snz -b=* -c=* -d=* -f=* --bytes= --characters= --delimiter= --fields= --complement --only-delimited
    --output-delimiter= --zero-terminated
  `)
  ],
  ["tr", makeFileGrammar("-cCdst --complement --delete --squeeze-repeats --truncate-set1")],
  ["paste", makeFileGrammar("-sz -d=* --delimiters= --serial --zero-terminated")],
  [
    "join",
    makeFileGrammar(`
    -iz -a=# -e= -1=# -2=# -j=# -o= -t=* -v=# --ignore-case --check-order --nocheck-order --header --zero-terminated
  `)
  ],
  ["comm", makeFileGrammar("-123iz --check-order --nocheck-order --output-delimiter= --total --zero-terminated")],
  ["cmp", makeFileGrammar("-bls -i= -n=# --print-bytes --ignore-initial= --verbose --bytes=# --quiet --silent")],
  ["diff", makeFileGrammar(difference)],
  [
    "od",
    makeFileGrammar(`
    -abcdfhilosvxBDHIOX -A= -t= -N=# -j=# -S=# -w[=] --address-radix= --format= --read-bytes=# --skip-bytes=#
    --strings[=] --width[=] --output-duplicates --endian=
  `)
  ],
  ["hexdump", makeFileGrammar("-bcCdovx -e=* -f= -n=# -s=# --canonical --length=# --skip=# --no-squeezing")],
  [
    "strings",
    makeFileGrammar("-afow -n=# -t= -e= -T= -s= -# --all --data --print-file-name --bytes=# --radix= --encoding=")
  ],
  ["stat", makeValueGrammar("-fLtxqrsln -c=* --dereference --file-system --format= --printf= --terse --cached=")],
  ["which", makeValueGrammar("-as")],
  ["whereis", makeValueGrammar("-bmsulBMSf")],
  [
    "df",
    makeValueGrammar(`
    -ahHiklmPTgY -B= -t= -x= --all --block-size= --human-readable --si --inodes --local --no-sync --output[=]
    --portability --type= --print-type --exclude-type= --total
  `)
  ],
  [
    "du",
    makeValueGrammar(`
    -aAbcDhHklLmPsSxg0 -d=# -t=* -B= -X= -I=* --all --apparent-size --block-size= --bytes --total --dereference
    --max-depth=# --exclude=* --human-readable --inodes --si --summarize --separate-dirs --threshold=* --time[=]
    --time-style= --one-file-system --null --files0-from= --exclude-from= --count-links --no-dereference
  `)
  ],
  ["basename", makeValueGrammar("-az -s=* --multiple --suffix= --zero")],
  ["dirname", makeValueGrammar("-z --zero")],
  [
    "realpath",
    makeValueGrammar(`
    -eEmLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet --relative-to=
    --relative-base= --strip --no-symlinks --zero
  `)
  ],
  [
    "readlink",
    makeValueGrammar(`
    -femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent --verbose
    --zero
  `)
  ],
  ["md5sum sha1sum sha224sum sha256sum sha384sum sha512sum", makeValueGrammar(sums)],
  ["b2sum", makeValueGrammar(`${sums} -l=# --length=#`)],
  ["cksum", makeValueGrammar(`${sums} -a= -l=# --algorithm= --length=# --untagged --raw --base64 --debug`)],
  ["sum", makeFileGrammar("-rs --sysv")],
  [
    "shasum",
    makeFileGrammar("-bctpUs -a=# --algorithm=# --binary --check --text --quiet --status --strict --warn --tag")
  ],
  ["grep egrep fgrep", makeFileGrammar(grep)],
  ["rg", makeGrammar(ripgrep)],
  ["jq", makeFileGrammar(jq)],
  // Two programs have this name, and a value for one may be a flag for the other.
  [
    "yq",
    makeGrammar(`
    -rPeNCMnjc -y -o= -p= -I=# --prettyPrint --output-format= --input-format= --indent=# --no-doc --colors --no-colors
    --null-input --exit-status --raw-output --yaml-output
  `)
  ],
  [
    "numfmt",
    makeFileGrammar(`
    -z -d= --debug --delimiter= --field= --format= --from= --from-unit= --grouping --header[=] --invalid= --padding=*
    --round= --suffix= --to= --to-unit= --zero-terminated
  `)
  ],
  ["base64", makeGrammar("-dD -w=# --decode --wrap=# --ignore-garbage")],
  ["base32", makeGrammar("-d -w=# --decode --wrap=# --ignore-garbage")],
  [
    "sort",
    makeGrammar(`
    -bdfgiMhnRrVcCmsuz -k= -t= -S= --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort
    --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort --reverse --sort=
    --version-sort --check[=] --key= --merge --stable --buffer-size= --field-separator= --parallel=# --unique
    --zero-terminated --debug
  `)
  ],
  [
    "uniq",
    makeGrammar(
      `
    -cdDiuz -f=# -s=# -w=# --count --repeated --all-repeated[=] --skip-fields=# --group[=] --ignore-case
    --skip-chars=# --unique --zero-terminated --check-chars=#
  `,
      { operands: "one" }
    )
  ],
  [
    "xxd",
    makeGrammar(
      `
    -a -b -E -e -i -p -ps -plain -u -c=# -g=# -l=# -o=# -s=
  `,
      { operands: "one", hasClusters: false }
    )
  ],
  [
    "file",
    makeGrammar(`
    -bhiIkLNnr -F= -e= -0 --brief --mime --mime-type --mime-encoding --extension --dereference --no-dereference
    --keep-going --no-pad --separator= --raw --print0 --apple
  `)
  ],
  [
    "tree",
    makeGrammar(`
    -adlfxiqNQpugshDFvtcUrnCXJAS -L: -P: -I: --gitignore --inodes --device --dirsfirst --noreport --prune --filelimit=
    --charset= --sort= --matchdirs --ignore-case --du --si --filesfirst --metafirst --timefmt=
  `)
  ],
  [
    "fd fdfind",
    makeGrammar(`
    -HIiuslgaLpF0q1 -t= -e= -E=* -d=# -S=* -c= -j=# --hidden --no-ignore --no-ignore-vcs --unrestricted
    --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --list-details --follow --full-path
    --type= --extension= --exclude=* --max-depth=# --min-depth=# --exact-depth=# --size=* --changed-within=
    --changed-before= --color= --max-results=# --print0 --strip-cwd-prefix --one-file-system --quiet --prune
  `)
  ],
  [
    "bat",
    makeGrammar(
      `
    -pAnfuP -l= -H= -r= -# --plain --show-all --number --language= --highlight-line= --line-range= --style= --color=
    --decorations= --paging= --theme= --tabs=# --wrap= --terminal-width=# --no-pager
  `,
      { check: ({ flags }) => flags.get("--paging")?.every((value) => value === "never") !== false }
    )
  ],
  ["less more", makeGrammar("", { operands: /^[^-+]/ })],
  // Without one of these flags before the archive, the program unpacks it.
  [
    "unzip",
    makeGrammar("-l -v -p -t -lv", { hasClusters: false, check: ({ flags, isMixed }) => flags.size > 0 && !isMixed })
  ]
])
