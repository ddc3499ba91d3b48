/**
 * Read-only flags of the subcommands of git that read a repository. Omitted flags write a file (`--output`), run a
 * program (`--ext-diff`, `--textconv`, `--open-files-in-pager`, `--show-signature`), edit (`config -e`) or change
 * references.
 *
 * **Gotchas**
 *
 * The settings of the repository may name programs that git runs without any flag; `fence/RepositorySettings` checks
 * them.
 */
import { makeTable, type Command, type Field } from "../Command.ts"
import { type Grammar, hasAny, makeGrammar, type Words } from "./FlagGrammar.ts"

const difference = `
  -pusRabwzWmcDt -U=# -B[=] -M[=] -C[=] -l=# -S=* -G=* -I=* -X[=] --patch --no-patch --unified=# --raw --patch-with-raw
  --patch-with-stat --minimal --patience --histogram --diff-algorithm= --anchored= --stat[=] --stat-width=#
  --stat-name-width=# --stat-graph-width=# --stat-count=# --compact-summary --numstat --shortstat --dirstat[=]
  --cumulative --summary --name-only --name-status --color[=] --no-color --color-moved[=] --no-color-moved
  --color-moved-ws= --word-diff[=] --word-diff-regex=* --color-words[=] --no-renames --rename-empty --no-rename-empty
  --check --full-index --binary --abbrev[=] --no-abbrev --find-renames[=] --find-copies[=] --find-copies-harder
  --break-rewrites[=] --irreversible-delete --diff-filter= --pickaxe-all --pickaxe-regex --relative[=] --no-relative
  --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines
  --ignore-matching-lines=* --inter-hunk-context=# --function-context --exit-code --quiet --no-ext-diff --no-textconv
  --ignore-submodules[=] --submodule[=] --src-prefix= --dst-prefix= --no-prefix --default-prefix --line-prefix= --cc
  --combined-all-paths --indent-heuristic --no-indent-heuristic --ita-invisible-in-index --diff-merges=
  --no-diff-merges --ws-error-highlight= --no-notes -r
`

const history = `
  -igEFP -n=# -L=* -# --max-count=# --skip=# --since=* --after=* --until=* --before=* --author=* --committer=* --grep=*
  --grep-reflog=* --all-match --invert-grep --regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings
  --perl-regexp --merges --no-merges --min-parents=# --max-parents=# --no-min-parents --no-max-parents --first-parent
  --all --branches[=] --tags[=] --remotes[=] --glob= --exclude= --not --graph --no-graph --oneline --decorate[=]
  --no-decorate --decorate-refs= --decorate-refs-exclude= --clear-decorations --source --mailmap --no-mailmap
  --use-mailmap --no-use-mailmap --follow --pretty[=] --format= --abbrev-commit --no-abbrev-commit --date=
  --relative-date --parents --children --left-right --cherry --cherry-pick --cherry-mark --left-only --right-only
  --boundary --simplify-by-decoration --simplify-merges --full-history --dense --sparse --ancestry-path[=] --show-pulls
  --date-order --author-date-order --topo-order --reverse --walk-reflogs --reflog --no-walk[=] --do-walk --notes[=]
  --show-notes[=] --show-linear-break[=] --expand-tabs[=] --no-expand-tabs --encoding= --log-size --ignore-missing
  --root --bisect --remove-empty --full-diff --always --stdin -v
`

/** Returns true for formats that do not verify a signature, because verification runs another program. */
const isPlainFormat = ({ flags }: Words): boolean =>
  ["--format", "--pretty"].every(
    (flag) => flags.get(flag)?.every((value) => !/%[-+ ]?G|signature/i.test(value)) !== false
  )

const makePlainGrammar = (flags: string): Grammar => makeGrammar(flags, { check: isPlainFormat })
const logging = makePlainGrammar(`${history} ${difference}`)

const tree = "-drtlz --long --name-only --name-status --object-only --full-name --full-tree --abbrev[=] --format="

const blame = makePlainGrammar(`
  -ltsewpcfn -L=* -M[=] -C[=] -# --porcelain --line-porcelain --incremental --show-name --show-number --show-email
  --show-stats --date= --since=* --first-parent --root --reverse --abbrev=# --ignore-rev= --ignore-revs-file=
  --color-lines --color-by-age --encoding= --no-progress --minimal
`)

const search = makeGrammar(`
  -niIlLcwvhHEFGPWpqoazr -e=* -f= -A=# -B=# -C=# -m=# -# --line-number --no-line-number --column --cached --untracked
  --exclude-standard --no-exclude-standard --recurse-submodules --recursive --no-recursive --max-depth=# --and --or
  --not --all-match --break --heading --show-function --function-context --threads=# --max-count=# --color[=]
  --no-color --no-textconv --name-only --files-with-matches --files-without-match --full-name --count --ignore-case
  --word-regexp --invert-match --perl-regexp --extended-regexp --basic-regexp --fixed-strings --only-matching --text
  --null --quiet --context=# --after-context=# --before-context=#
`)

const references = `
  --merged[=] --no-merged[=] --contains[=] --no-contains[=] --points-at[=] --sort= --format= --color[=] --no-color
  --column[=] --no-column --ignore-case --omit-empty
`

/** Returns true if no empty variable could make a flag the value of another flag. */
const isWritten = ({ fields }: Command): boolean => !fields.some(({ varies }) => varies)

const listing = ["--list", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at"]

/** Without a flag that lists references, an operand is the name of a new reference. */
const isReferenceListing =
  (more: ReadonlyArray<string>) =>
  (words: Words, command: Command): boolean =>
    isPlainFormat(words) && isWritten(command) && (words.operands.length === 0 || hasAny(words, [...listing, ...more]))

const branch = makeGrammar(
  `-arvi -# --all --remotes --verbose --list --show-current --abbrev[=] --no-abbrev ${references}`,
  { check: isReferenceListing([]) }
)
const tag = makeGrammar(`-li -n[=] --list ${references}`, { check: isReferenceListing(["-l"]) })

/** Grammar for reading the values of settings without editing them. */
const config = makeGrammar(
  `
  -lz --list --get --get-all --get-regexp --get-urlmatch --global --local --system --worktree --show-origin
  --show-scope --name-only --null --bool --int --bool-or-int --path --type= --includes --no-includes
`,
  {
    check: (words, command) => {
      const { operands } = words
      if (!isWritten(command)) return false
      if (hasAny(words, ["--list", "-l"])) return operands.length === 0
      if (hasAny(words, ["--get", "--get-all", "--get-regexp", "--get-urlmatch"]))
        return operands.length > 0 && operands.length <= 2
      return (
        operands.length === 1 &&
        operands.every(
          ({ glob, text, unknown, varies }) => !glob && !unknown && !varies && /^[\w-]+\.[\w.-]+$/.test(text)
        )
      )
    }
  }
)

const isBare = ({ operands }: Words): boolean => operands.length === 0

/** Grammars by subcommand. */
export const subcommands = makeTable<Grammar>([
  [
    "log show whatchanged rev-list",
    makePlainGrammar(`${history} ${difference} --count --objects --timestamp --header --disk-usage[=] -q`)
  ],
  ["diff", makeGrammar(`${difference} --cached --staged --merge-base -0 -1 -2 -3 --base --ours --theirs`)],
  ["diff-tree", makePlainGrammar(`${history} ${difference} --no-commit-id --merge-base`)],
  ["diff-index diff-files", makePlainGrammar(`${difference} --cached --merge-base -q -0 -1 -2 -3`)],
  [
    "status",
    makeGrammar(`
    -sbvz -u[=] -M[=] --short --branch --show-stash --porcelain[=] --long --verbose --untracked-files[=]
    --ignore-submodules[=] --ignored[=] --column[=] --no-column --ahead-behind --no-ahead-behind --renames --no-renames
    --find-renames[=] --null
  `)
  ],
  [
    "ls-files",
    makeGrammar(`
    -cdmoisukztvf -x=* -X= --cached --deleted --modified --others --ignored --stage --unmerged --killed --directory
    --no-empty-directory --eol --deduplicate --exclude=* --exclude-from= --exclude-per-directory= --exclude-standard
    --error-unmatch --with-tree= --full-name --recurse-submodules --abbrev[=] --format= --debug --sparse
  `)
  ],
  ["ls-tree", makeGrammar(tree)],
  [
    "rev-parse",
    makeGrammar(`
    -q --quiet --verify --short[=] --abbrev-ref[=] --symbolic --symbolic-full-name --all --branches[=] --tags[=]
    --remotes[=] --glob= --show-toplevel --show-prefix --show-cdup --show-superproject-working-tree --git-dir
    --absolute-git-dir --git-common-dir --git-path= --path-format= --is-inside-work-tree --is-inside-git-dir
    --is-bare-repository --is-shallow-repository --shared-index-path --show-object-format[=] --local-env-vars
    --default= --revs-only --no-revs --flags --no-flags --not --since= --until= --disambiguate=
  `)
  ],
  ["grep", search],
  ["blame annotate", blame],
  [
    "describe",
    makeGrammar(`
    --all --tags --contains --long --always --abbrev=# --dirty[=] --broken[=] --match= --exclude= --exact-match
    --first-parent --candidates=# --debug
  `)
  ],
  [
    "cat-file",
    makeGrammar(`
    -tsep --batch[=] --batch-check[=] --batch-all-objects --buffer --unordered --follow-symlinks --allow-unknown-type
    --use-mailmap
  `)
  ],
  ["shortlog", makePlainGrammar(`${history} -sne -w[=] -c --summary --numbered --email --committer --group=`)],
  ["merge-base", makeGrammar("-a --all --octopus --independent --is-ancestor --fork-point")],
  ["name-rev", makeGrammar("--tags --refs= --exclude= --all --name-only --no-undefined --always")],
  [
    "show-ref",
    makeGrammar("-dsq --head --heads --branches --tags --dereference --hash[=] --abbrev[=] --verify --quiet --exists")
  ],
  ["for-each-ref", makePlainGrammar(`--count=# --exclude= --shell --perl --python --tcl ${references}`)],
  ["cherry", makeGrammar("-v --verbose --abbrev[=]")],
  ["count-objects", makeGrammar("-vH --verbose --human-readable")],
  ["check-ignore", makeGrammar("-qvnz --quiet --verbose --non-matching --stdin --no-index")],
  ["check-attr", makeGrammar("-az --all --stdin --cached --source=")],
  ["version", makeGrammar("--build-options")],
  ["branch", branch],
  ["tag", tag],
  ["config", config]
])

/** Grammars by second word, and for a missing second word. */
const nested: ReadonlyMap<string, ReadonlyMap<string, Grammar>> = makeTable([
  [
    "remote",
    makeTable([
      ["", makeGrammar("-v --verbose", { check: isBare })],
      ["get-url", makeGrammar("--all --push")]
    ])
  ],
  ["stash", makeTable([["list show", logging]])],
  [
    "reflog",
    makeTable([
      ["", makePlainGrammar(`${history} ${difference}`)],
      ["show", logging]
    ])
  ],
  ["worktree", makeTable([["list", makeGrammar("-vz --porcelain --verbose")]])]
])

const isGlobal = /^(?:-P|--no-pager|--no-optional-locks|--literal-pathspecs)$/

/**
 * Returns the words after the subcommand, with the grammar that they have to match; `undefined` for a subcommand that
 * may do more than read.
 */
export const readSubcommand = (
  fields: ReadonlyArray<Field>
): { readonly grammar: Grammar; readonly rest: ReadonlyArray<Field> } | undefined => {
  const at = fields.findIndex(({ text }) => !isGlobal.test(text))
  const [verb, ...rest] = at === -1 ? [] : fields.slice(at)
  if (verb === undefined || verb.unknown || verb.varies || verb.glob) return undefined
  const grammar = subcommands.get(verb.text)
  if (grammar !== undefined) return { grammar, rest }
  const inner = nested.get(verb.text)
  const [second] = rest
  if (inner === undefined || second?.varies === true) return undefined
  if (second !== undefined && !second.text.startsWith("-")) {
    const own = inner.get(second.text)
    return own === undefined ? undefined : { grammar: own, rest: rest.slice(1) }
  }
  const own = inner.get("")
  return own === undefined || rest.some(({ text }) => !text.startsWith("-")) ? undefined : { grammar: own, rest }
}
