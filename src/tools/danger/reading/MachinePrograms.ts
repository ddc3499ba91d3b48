/**
 * Read-only flags of programs that inspect the machine, its services and its installed packages. Omitted flags and
 * operands change something (`date -s`, `hostname NAME`, `ss -K`, `journalctl --vacuum-size`), reach another machine
 * (`systemctl -H`, `pip --index-url`, `ss -r`, `ss HOST`) or write (`pip --log`).
 *
 * **Gotchas**
 *
 * `npm ls`, `pip freeze` and `podman` are excluded: `npm ls` writes its log and cache to a location that a file of the
 * project can set, `pip freeze` starts tools of the repositories that it finds, and `podman` creates its storage.
 */
import { makeTable, parseNames } from "../Command.ts"
import { type Grammar, makeGrammar, type Words } from "./FlagGrammar.ts"

const makeFileGrammar = (flags: string): Grammar => makeGrammar(flags, { open: "files" })
const makeValueGrammar = (flags: string): Grammar => makeGrammar(flags, { open: "values" })

const isPlainFormat = (value: string): boolean => !/environ/i.test(value)

/** `e` and `E` are excluded, because they show the environments of processes. */
const ps = makeGrammar(
  "-AadefFjlLTHwycMN -o= -O= -p= -u= -U= -C= -g= -G= -t= -s= -q= -k= --forest --sort=* --no-headers " +
    "--no-heading --headers --pid= --ppid=\n   --user= --User= --cols=# --columns=# --rows=# --width=# --format= " +
    "--deselect --cumulative --tty= --group=",
  {
    operands: /^(?:[acfghjlmnrsTuvwxXSH]{1,12}o?|\d[\d,]*|[a-z%_]+(?:[,:=][\w,:=%]*)+)$/,
    check: ({ flags, operands }) =>
      [...flags.values()].flat().every(isPlainFormat) && operands.every(({ text }) => isPlainFormat(text))
  }
)

/** Creates a table for programs whose first word is a subcommand. */
const makeVerbTable = (rows: ReadonlyArray<readonly [names: string, grammar: Grammar]>): ReadonlyMap<string, Grammar> =>
  makeTable(rows)

const format = "--format=* -f=*"

/** Grammars by the first word of docker. */
const docker = makeVerbTable([
  ["ps", makeGrammar("-aqls -n=# -f= --filter= --format=* --no-trunc --all --quiet --latest --last=# --size")],
  ["images", makeGrammar("-aq -f= --filter= --format=* --no-trunc --all --quiet --digests")],
  ["version info", makeGrammar(format)],
  ["logs", makeGrammar("-ft -n= --follow --timestamps --tail= --since= --until= --details")],
  ["inspect", makeGrammar(`${format} -s --size --type=`)],
  ["top", makeGrammar("")]
])

const unitFlags = `
  -alqr -t= -p= -n=# --all --full --quiet --user --system --no-pager --no-legend --plain --type= --state= --property=
  --failed --lines=# --value --recursive --reverse --after --before
`
const units = makeGrammar(unitFlags)
const systemctl = makeVerbTable([
  ["status list-units list-unit-files list-timers is-active is-enabled is-failed show", units]
])

/** Excludes caches, logs and other machines. */
const pip = makeVerbTable([
  [
    "list",
    makeGrammar("-lv --local --user --not-required --format= --exclude= --disable-pip-version-check --no-color")
  ],
  ["show", makeGrammar("-fv --files --verbose --disable-pip-version-check --no-color")]
])

const dpkg = makeVerbTable([["-l -L -s -S", makeGrammar("")]])

/** Programs with subcommands, and the grammar of each subcommand. */
export const verbs: ReadonlyMap<string, ReadonlyMap<string, Grammar>> = makeTable([
  ["docker", docker],
  ["systemctl", systemctl],
  ["pip pip3", pip],
  ["dpkg", dpkg],
  ["crontab", makeVerbTable([["-l", makeGrammar("", { operands: "none" })]])],
  ["hermes", makeVerbTable([["version", makeGrammar("", { operands: "none" })]])]
])

/** Words of a filter of `ss`. `ss` resolves any other word over the network. */
const filterWords = parseNames(`
  state exclude sport dport src dst and or not eq ne lt le gt ge = == != < <= > >= ( ) ! all connected synchronized
  bucket big listening established closed closing syn-sent syn-recv fin-wait-1 fin-wait-2 time-wait close-wait last-ack
`)
const address = /^(?:\d{1,3}(?:\.\d{1,3}){3}(?:\/\d{1,2})?)?(?::\d{1,5})?$/

/** Returns true for a filter of sockets that names no host. */
const isSocketFilter = ({ operands }: Words): boolean =>
  operands.every(
    ({ glob, text, unknown }) =>
      !glob &&
      !unknown &&
      text
        .trim()
        .split(/\s+/)
        .every((word) => filterWords.has(word) || address.test(word))
  )

/** Returns true if the operands format a date and do not set it. */
const isShownDate = ({ operands }: Words): boolean => operands.length <= 1

/** Read-only flags of programs that inspect the machine. */
export const machinePrograms = makeTable<Grammar>([
  ["ps", ps],
  [
    "date",
    makeGrammar(
      "-uRj -d=* -r= -I[=] -v=* --date=* --reference= --utc --universal --rfc-email --rfc-3339= --iso-8601[=]",
      { operands: /^\+/, check: isShownDate }
    )
  ],
  ["hostname", makeGrammar("-sI --short --all-ip-addresses", { operands: "none" })],
  ["env", makeGrammar("", { operands: "none" })],
  ["printenv", makeFileGrammar("-0 --null")],
  ["whoami", makeFileGrammar("")],
  ["id", makeFileGrammar("-aGgnruz --group --groups --name --real --user --zero")],
  ["groups", makeFileGrammar("")],
  [
    "uname",
    makeFileGrammar(
      "-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor " +
        "--operating-system"
    )
  ],
  ["uptime", makeFileGrammar("-ps --pretty --since")],
  [
    "free",
    makeFileGrammar(
      "-bkmghltwv -c=# -s=# --bytes --kibi --mebi --gibi --human --si --lohi --total --wide --count=# --seconds=#"
    )
  ],
  [
    "pgrep",
    makeFileGrammar(`
    -acflnovwxi -d= -g= -G= -P= -s= -t= -u= -U= --count --list-name --list-full --newest --oldest --full --exact
    --ignore-case --parent= --euid= --uid= --inverse --delimiter=
  `)
  ],
  ["nproc", makeFileGrammar("--all --ignore=#")],
  [
    "lscpu",
    makeFileGrammar("-abcJxy -e[=] -p[=] --all --online --offline --json --extended[=] --parse[=] --hex --physical")
  ],
  [
    "lsblk",
    makeGrammar(
      "-abdfilmnprstOJPS -o= -e= -I= -x= --all --bytes --nodeps --fs --json --output= --paths --noheadings --list"
    )
  ],
  [
    "ss",
    makeGrammar(
      "-tulnpaxw460smioHOe --tcp --udp --listening --numeric --processes --all --unix --summary --ipv4 --ipv6 " +
        "--no-header",
      { check: isSocketFilter }
    )
  ],
  // `-m` is excluded, because it runs `gzip`.
  ["locale", makeFileGrammar("-ackv --all-locales --category-name --keyword-name --verbose")],
  ["getconf", makeFileGrammar("-a -v=")],
  ["tty", makeFileGrammar("-s --silent --quiet")],
  ["cal", makeFileGrammar("-13jmswyhN -A=# -B=# -n=#")],
  ["factor", makeFileGrammar("-h --exponents")],
  ["seq", makeValueGrammar("-w -f=* -s=* -# --equal-width --format=* --separator=*")],
  [
    "journalctl",
    makeGrammar(`
    -befrkqxa -u= -n=# -p= -S= -U= -t= -g= -o= -b[=] --unit= --user-unit= --lines=# --no-pager --reverse --dmesg
    --priority= --since= --until= --identifier= --grep= --case-sensitive[=] --output= --boot[=] --list-boots --utc
    --no-hostname --catalog --quiet --no-full --all --user --system --disk-usage
  `)
  ]
])

/** Programs that can print their version or help without any other effect, in any directory. */
export const versioned = parseNames(`
  git node python python3 python2 ruby perl gcc g++ cc c++ clang clang++ java javac make cmake docker gh curl wget ssh
  openssl sqlite3 psql redis-cli bash zsh sh rustc hermes kubectl ffmpeg convert gpg vim nano tmux nginx lua R php
  bwrap strace
`)

/** The short version flag of some of these programs. */
export const versionFlags = makeTable([
  ["node ruby perl", "-v"],
  ["python python3 python2 tmux", "-V"],
  ["java javac", "-version"]
])
