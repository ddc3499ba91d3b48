/**
 * Finds losses that a sandbox does not prevent: loss of files of the working tree, uncommitted work, history of
 * repositories and data in databases; and publication.
 */
import {
  makeFinding,
  isHelpRequest,
  type Command,
  type Finding,
  hasFlag,
  makeRowRule,
  parseNames,
  selectOperands,
  type Row,
  type Rule
} from "../Command.ts"

/** Programs that delete their operands. */
export const deleters = parseNames("rm srm grm remove-item ri rd rmdir del erase unlink shred trash rimraf wipe")

/** Returns true for a deletion of whole trees. */
export const isRecursive = ({ args, program }: Command): boolean =>
  program === "rimraf" ||
  hasFlag(args, "rR", ["recursive", "recurse"]) ||
  args.some((arg) => /^\/s$/i.test(arg) || /^-recurse\b/i.test(arg))

/** Returns true for a search that deletes its results. */
export const isSearchDeletion = ({ args, program }: Command): boolean =>
  /^(?:find|gfind|bfs)$/.test(program) &&
  args.some(
    (arg, index) =>
      arg === "-delete" ||
      (/^-exec(?:dir)?$|^-ok(?:dir)?$/.test(arg) && /(?:^|\/)(?:rm|shred|unlink|srm)$/.test(args[index + 1] ?? ""))
  )

const searches = /^(?:find|gfind|fd|fdfind|bfs)$/

const findDeletion: Rule = (command) => {
  const { args, fields, program, wrappers } = command
  if (isSearchDeletion(command)) return makeFinding("file destruction", "delete of what a search finds (find -delete)")
  if (!deleters.has(program) || isHelpRequest(args)) return undefined
  if (wrappers.includes("xargs") || wrappers.includes("parallel"))
    return makeFinding("file destruction", "delete of what the input names (xargs rm)")
  if (wrappers.some((wrapper) => searches.test(wrapper)))
    return makeFinding("file destruction", "delete of what a search finds (find -exec rm)")
  if (isRecursive(command) && program !== "rmdir") return makeFinding("file destruction", "recursive delete")
  if (program === "shred" || program === "srm" || program === "wipe")
    return makeFinding("file destruction", "deletion that cannot be undone (shred)")
  return fields.some(({ text }) => /^[~./]*\*$/.test(text) || text === ".*")
    ? makeFinding("file destruction", "delete of everything in a directory")
    : undefined
}

const findEmptying: Rule = ({ args, fields, program }) => {
  if (program === "mv" && selectOperands(args).at(-1) === "/dev/null")
    return makeFinding("file destruction", "move into nothing (/dev/null)")
  if ((program === "cp" || program === "ln") && fields[0]?.text === "/dev/null")
    return makeFinding("file destruction", "overwriting with nothing")
  return program === "rsync" && args.some((arg) => /^--(?:delete|remove-source-files)/.test(arg))
    ? makeFinding("file destruction", "synchronisation that deletes (rsync --delete)")
    : undefined
}

const valued = new Set(["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"])

/** Returns the subcommand of git and the words after it. */
export const readGitSubcommand = (args: ReadonlyArray<string>): string => {
  let index = 0
  while (index < args.length && args[index]?.startsWith("-") === true) index += valued.has(args[index] ?? "") ? 2 : 1
  return args.slice(index).join(" ")
}

const historyRewrite = new RegExp(
  [
    String.raw`^(?:filter-branch|filter-repo|replace)\b`,
    "^rebase.* (?:--root|-x|--exec)",
    "^update-ref.* (?:-d|--del|--stdin)",
    "^reflog (?:expire|delete)",
    "^gc.* --prune=(?:now|all)",
    "^prune(?!.* (?:-n|--dry))"
  ].join("|")
)
const rewrites = "rewriting of history (git)"
const git = /^git$/

const repositories: ReadonlyArray<Row> = [
  [git, /^reset .*--h/, "history rewriting", "loss of uncommitted changes (git reset --hard)"],
  [git, /^push.* (?:-[a-zA-Z]*f|--for|--mir|--pru|\+\S)/, "history rewriting", "forced push (git push --force)"],
  [git, /^push.* (?:-[a-zA-Z]*d|--del|:\S)/, "history rewriting", "delete of a remote branch or tag"],
  [git, /^push(?!.* (?:-[a-zA-Z]*n|--dry))/, "publication", "push to a remote repository (git push)"],
  [
    git,
    /^clean(?=.* (?:-[a-zA-Z]*f|--for))(?!.* (?:-[a-zA-Z]*n|--dry))/,
    "history rewriting",
    "delete of untracked files (git clean -f)"
  ],
  [
    git,
    /^branch(?:.* -[a-zA-Z]*D|(?=.* (?:-[a-zA-Z]*d|--del)).* (?:-[a-zA-Z]*f|--for))/,
    "history rewriting",
    "forced delete of a branch (git branch -D)"
  ],
  [git, historyRewrite, "history rewriting", rewrites],
  [git, /^stash (?:drop|clear)/, "history rewriting", "loss of stashed changes"],
  [
    git,
    /^(?:checkout|switch)(?:.* (?:-[a-zA-Z]*f|--for|--dis)|(?!.* -b).* (?:\.|:\/)(?: |$))/,
    "history rewriting",
    "loss of uncommitted changes (git checkout)"
  ],
  [
    git,
    /^restore(?=.* (?:\.|:\/)(?: |$))(?:(?!.* (?:-[a-zA-Z]*S|--sta))|.* (?:-[a-zA-Z]*W|--wor))/,
    "history rewriting",
    "loss of uncommitted changes (git restore)"
  ],
  [git, /^worktree remove.* (?:-[a-zA-Z]*f|--for)/, "history rewriting", "loss of uncommitted changes (git worktree)"]
]

const elsewhere: ReadonlyArray<Row> = [
  [
    /^(?:npm|yarn|pnpm|cargo|twine|gem)$/,
    /^(?:-\S+ )*(?:publish|unpublish|yank|deprecate|push|upload)\b/,
    "publication",
    "change of a published package"
  ],
  [/^(?:dropdb|dropuser)$/, /^/, "database", "SQL DROP"],
  [/^mysqladmin$/, /\bdrop\b/i, "database", "SQL DROP"],
  [/^redis-cli$/, /\bflush(?:all|db)\b/i, "database", "emptying of a database"],
  [
    /^mongo(?:sh)?$/,
    /dropdatabase|\.drop\(|(?:deletemany|\.remove)\(\s*\{\s*\}/i,
    "database",
    "emptying of a database"
  ],
  [/^(?:rails|rake)$/, /\bdb:(?:drop|reset|purge|schema:load|migrate:reset)\b/i, "database", "SQL DROP"],
  [
    /^(?:prisma|npm|npx|yarn|pnpm|bunx?)$/,
    /\bmigrate reset\b|--force-reset|--accept-data-loss/,
    "database",
    "SQL DROP"
  ],
  [/^(?:php|artisan)$/, /\bmigrate:(?:fresh|reset|refresh)\b|\bdb:wipe\b/i, "database", "SQL DROP"],
  [
    /^(?:python[\d.]*|django-admin)$/,
    /(?:^|manage\.py )(?:flush|reset_db|sqlflush)\b/i,
    "database",
    "emptying of a database"
  ]
]

/** Programs that run statements of a database. */
export const databases = parseNames(`
  psql mysql mariadb sqlite sqlite3 sqlcmd osql isql duckdb clickhouse clickhouse-client cqlsh cockroach sqlplus
  usql pgcli mycli litecli snowsql bq trino presto hive beeline impala-shell turso wrangler supabase prisma surreal
`)

const drop = /\bdrop\s+(?:table|database|schema|view|index|user|role|keyspace|collection|owned)\b/i
const truncate = /\btruncate\s+(?:table\s+)?["'`\w]/i
const deletes = /\bdelete\s+from\s+[^\s;]/gi
const updates = /\bupdate\s+[^\s;]{1,200}\s+set\s/gi

/** Returns true if a statement has no condition between its verb and the end of its line or the next statement. */
const isWhole = (text: string, verb: RegExp): boolean => {
  const found = Array.from(text.matchAll(verb), ({ 0: words, index }) => ({ from: index, to: index + words.length }))
  return found.some(({ to }, index) => {
    const rest = text.slice(to, found[index + 1]?.from)
    const end = rest.search(/[\n;]/)
    return !/\bwhere\b/i.test(end === -1 ? rest : rest.slice(0, end))
  })
}

const judgeStatement = (text: string): Finding | undefined => {
  const short = text.length > 100_000 ? text.slice(0, 100_000) : text
  if (drop.test(short)) return makeFinding("database", "SQL DROP")
  if (truncate.test(short)) return makeFinding("database", "SQL TRUNCATE")
  if (isWhole(short, deletes)) return makeFinding("database", "SQL DELETE without WHERE")
  return isWhole(short, updates) ? makeFinding("database", "SQL UPDATE without WHERE") : undefined
}

/** Finds losses in statements in the arguments, the input and the here-documents of programs that may run them. */
const findDatabaseLoss: Rule = ({ args, input, program, redirects, stdin }) => {
  if (!databases.has(program)) return undefined
  const documents = redirects.filter(({ operator }) => operator.startsWith("<<")).map(({ target }) => target.text)
  const piped = input.filter(({ program }) => /^(?:echo|printf|cat)$/.test(program)).map(({ args }) => args.join(" "))
  return judgeStatement([...args, stdin ?? "", ...documents, ...piped].join("\n"))
}

const clouds = new RegExp(
  "^(?:aws|gcloud|az|doctl|heroku|fly|flyctl|gh|gsutil|kubectl|oc|helm|terraform|tofu|terragrunt|pulumi|cdk|" +
    "serverless|sls|docker|podman|nerdctl|docker-compose)$"
)
const removing = new RegExp(
  "^(?:delete|destroy|remove|rm|rmi|rb|kill|stop|prune|down|drain|cordon|replace|taint|evict|uninstall|rollback|" +
    "terminate-instances|delete-.+)$"
)

/** Finds the removal of remote resources: in a cloud, a cluster, a container engine. */
const findRemoteRemoval: Rule = ({ args, program }) =>
  clouds.test(program) &&
  (selectOperands(args)
    .slice(0, 4)
    .some((word) => removing.test(word)) ||
    args.some((arg) => /^-(?:-)?(?:auto-approve|destroy)$|^--replicas=0$/.test(arg)))
    ? makeFinding("container", "removal of what runs in containers, a cluster or a cloud")
    : undefined

/** Losses of files and of uncommitted work, which an undo may cover. */
export const losses: ReadonlyArray<Rule> = [findDeletion, findEmptying, makeRowRule(repositories, readGitSubcommand)]

/** Rules for all losses. */
export const rules: ReadonlyArray<Rule> = [...losses, makeRowRule(elsewhere), findDatabaseLoss, findRemoteRemoval]
