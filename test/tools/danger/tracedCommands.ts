// Commands that are run in a sandbox under a tracer: which there are, and what of their system calls is more than
// reading.
import { spawnSync } from "node:child_process"

/** A command as words, without a shell. */
export type Words = ReadonlyArray<string>

/** A word that no shell reads. */
export const quoteWord = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`

/** A line of quoted words. */
export const toLine = (words: Words): string => words.map(quoteWord).join(" ")

const directories = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

const wall = [
  "--unshare-all",
  "--die-with-parent",
  "--new-session",
  "--cap-drop",
  "ALL",
  "--uid",
  "65534",
  "--gid",
  "65534",
  "--ro-bind",
  "/",
  "/",
  "--proc",
  "/proc",
  "--dev",
  "/dev",
  "--tmpfs",
  "/tmp",
  "--clearenv",
  "--setenv",
  "PATH",
  directories,
  "--setenv",
  "HOME",
  "/tmp/home",
  "--setenv",
  "PYTHONDONTWRITEBYTECODE",
  "1",
  "--chdir",
  "/tmp"
]

/**
 * Runs a script of a shell in a sandbox without a network, as a user without rights, where only a private folder may be
 * written.
 */
export const runConfined = (script: string): string =>
  spawnSync("bwrap", [...wall, "sh", "-s"], { input: script, encoding: "utf8", maxBuffer: 1 << 30 }).stdout ?? ""

/** True where a sandbox and a tracer inside it work. */
export const canTrace = (): boolean =>
  process.platform === "linux" && runConfined("strace -f -qq -o /tmp/t true && echo traced").trim() === "traced"

/** Things to read, a repository among them. `./x` is a program that nothing may start. */
const preparation = `
mkdir -p /tmp/home /tmp/w /tmp/t && cd /tmp/w || exit 1
printf 'a 1\\nb 2\\n' >a; cp a b; cp a /tmp/in; printf '{"a":1}' >a.json; printf '#!/bin/sh\\n:\\n' >x; chmod +x x; mkdir -p d; cp a d/a
tar cf a.tar a 2>/dev/null; python3 -m zipfile -c a.zip a 2>/dev/null
git init -q . && git add a b && git -c user.name=a -c user.email=a@a.example commit -qm a
`

const calls =
  "%file,%network,clock_settime,clock_adjtime,settimeofday,adjtimex,sethostname,setdomainname,fchmod,fchown,ftruncate,fallocate," +
  "kill,tgkill,mount,setpriority,setrlimit"

/** Programs that wait for nothing and take long to start: a trace that ends before they do shows nothing of them. */
const slow = new Set(["yq", "pip", "pip3", "docker"])

/** Seconds after which a command is ended; some of the others wait for good. */
const limitSeconds = ([program = ""]: Words): number => (slow.has(program) ? 60 : 1)

/** Runs commands one after another and returns the system calls of each. */
export const traceCommands = (commands: ReadonlyArray<Words>): ReadonlyArray<string> => {
  const runs = commands.map(
    (words, index) =>
      `strace -f -qq -s 200 -e signal=none -e trace=${calls} -o /tmp/t/${index} timeout -s KILL ${limitSeconds(words)} ${toLine(words)} </tmp/in >/dev/null 2>&1; ` +
      `echo "@@ ${index}"; cat /tmp/t/${index}; rm -f /tmp/t/${index}`
  )
  const out = runConfined(preparation + runs.join("\n"))
  const traces = out.split(/^@@ \d+\n/m).slice(1)
  if (traces.length !== commands.length) throw new Error(`${traces.length} of ${commands.length} commands were traced`)
  return traces
}

/** Programs that run others to read: scripts, decompressors, the query of `yq`, the parts of git. */
const helpers: ReadonlyMap<string, RegExp> = new Map([
  ["egrep", /\/(?:grep|egrep|sh|dash|bash)$/],
  ["fgrep", /\/(?:grep|fgrep|sh|dash|bash)$/],
  ["which", /\/(?:sh|dash|which[.\w]*)$/],
  ["yq", /\/(?:jq|python[\d.]*)$/],
  ["tar", /\/(?:sh|gzip|xz|bzip2|zstd)$/],
  ["fd", /\/ls$/],
  ["fdfind", /\/ls$/],
  ["git", /\/(?:git|git-[a-z-]+)$/],
  ["dpkg", /\/dpkg-query$/],
  ["docker", /\/docker(?:-[a-z]+)?$/]
])

/** Sockets of this machine that a program asks for what it shows. */
const sockets = /AF_UNIX, sun_path=@?"(?:\/var)?\/run\/(?:nscd|systemd|dbus|docker|user)/

const writing = /^open(?:at2?)?\(.*O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)|^creat\(/
const harmlessFiles = /"\/dev\/(?:null|tty|pts\/\d+)"|"\/proc\/self\//
const changing =
  /^(?:unlink|unlinkat|rename\w*|mkdir\w*|rmdir|link|linkat|symlink\w*|mknod\w*|f?chmod\w*|[fl]?chown\w*|utime\w*|futimes\w*|f?truncate|fallocate|[lf]?setxattr|[lf]?removexattr|mount|umount2?|clock_settime|clock_adjtime|settimeofday|adjtimex|sethostname|setdomainname|kill|tgkill|acct|swapon|pivot_root|chroot)\(/
/** Git writes down what it saw of the files. */
const indexOfGit = /\.git\/(?:index(?:\.lock)?|objects\/(?:maintenance|tmp)[^"]*)"/
/** The clock is asked with the same call that sets it. */
const asking = /^(?:adjtimex|clock_adjtime)\(.*modes=0,/

/** The kernel is asked for its sockets: addresses are in the question, and nothing is sent to them. */
const listingSockets = /nlmsg_type=(?:SOCK_DIAG_BY_FAMILY|(?:TCP|DCCP)DIAG_GETSOCK)\b/
/** A library asks whether this machine has the protocol, and hears nothing on the port. */
const probing = /^bind\(\d+, \{sa_family=AF_INET6, sin6_port=htons\(0\), .*"::1"/
/** A program of Go interrupts its own threads with this signal, which does nothing to any other. */
const interrupting = /^tgkill\(\d+, \d+, SIGURG\b/

const isHarmless = (program: string, call: string): boolean => {
  if (listingSockets.test(call) || interrupting.test(call) || probing.test(call)) return true
  if (call.startsWith("exec")) {
    if (!call.endsWith("= 0")) return true
    const path = /"([^"]*)"/.exec(call)?.[1] ?? ""
    if (path.startsWith("/tmp/") || !path.startsWith("/")) return false
    return path.endsWith("/timeout") || path.endsWith(`/${program}`) || helpers.get(program)?.test(path) === true
  }
  if (/^(?:connect|sendto|sendmsg|sendmmsg|bind)\(/.test(call))
    return !/AF_INET/.test(call) && (!/AF_UNIX/.test(call) || sockets.test(call))
  if (!writing.test(call) && !changing.test(call)) return true
  return harmlessFiles.test(call) || (program === "git" && indexOfGit.test(call)) || asking.test(call)
}

/**
 * Joins the two halves of a call that another process interrupted in the trace; one that never came back stays a half.
 */
const joinCalls = (trace: string): ReadonlyArray<readonly [id: string, call: string]> => {
  const begun = new Map<string, string>()
  const joined = trace.split("\n").flatMap((line): ReadonlyArray<readonly [string, string]> => {
    const [, id = "", text = ""] = /^(\d+)\s+(.*)$/.exec(line) ?? []
    const half = /^(.*) <unfinished \.\.\.>$/.exec(text)?.[1]
    if (half !== undefined) {
      begun.set(id, half)
      return []
    }
    const [resumed, rest = ""] = /^<\.\.\. \w+ resumed>(.*)$/.exec(text) ?? []
    if (resumed === undefined) return text === "" ? [] : [[id, text]]
    const first = begun.get(id) ?? ""
    begun.delete(id)
    return [[id, first + rest]]
  })
  return [...joined, ...begun]
}

/** Returns the system calls of a command that do more than read. */
export const findWrites = (program: string, trace: string): ReadonlyArray<string> => {
  // What the timer in front does is not the program's.
  const [timer = ""] = trace.split(/\s/, 1)
  return joinCalls(trace).flatMap(([id, call]) =>
    (id === timer && call.startsWith("kill(")) || isHarmless(program, call) ? [] : [call.slice(0, 200)]
  )
}
