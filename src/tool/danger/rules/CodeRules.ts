/**
 * Code inside a command: scripts of shells and interpreters, statements for databases, orders for container engines.
 */
import { ask, type Command, type Finding, hasFlag, named, operands, type Rule } from "../Command.ts"
import * as PathClass from "../PathClass.ts"
import * as Wrappers from "../Wrappers.ts"

const inline: Rule = ({ args, program }) => {
  if (Wrappers.shells.has(program) || program === "cmd") {
    if (/^(?:pwsh|powershell)$/.test(program)) {
      if (args.some((arg) => /^-e(?:nc|ncodedcommand|c)?$/i.test(arg))) {
        return ask("encoded payload", "encoded command for PowerShell")
      }
      return args.some((arg) => /^-c(?:ommand)?$/i.test(arg))
        ? ask("inline code", "script for a shell in its arguments (sh -c)")
        : undefined
    }
    const script = args.findIndex((arg) => !arg.startsWith("-") && !/^[+-]?[a-z]+$/.test(arg))
    return (script === -1 ? args : args.slice(0, script)).some((arg) => /^-[abd-zA-Z]*c[a-zA-Z]*$/.test(arg)) ||
      program === "cmd" && args.some((arg) => /^\/[ck]$/i.test(arg))
      ? ask("inline code", "script for a shell in its arguments (sh -c)")
      : undefined
  }
  const first = args.findIndex((arg) => !arg.startsWith("-"))
  const own = first === -1 ? args : args.slice(0, first)
  if (/^(?:python[\d.]*|pypy3?)$/.test(program)) return own.some((arg) => /^-[a-zA-Z]*c/.test(arg)) ? code : undefined
  if (/^(?:perl|ruby)[\d.]*$/.test(program)) {
    return own.some((arg) => /^-[a-zA-Z0-9]*[eE]/.test(arg) && !arg.startsWith("--")) ? code : undefined
  }
  if (/^(?:node|nodejs|bun|tsx|ts-node)$/.test(program)) {
    return own.some((arg) => /^-(?:[a-z]*[ep]|-eval|-print)(?:=|$)/.test(arg)) ? code : undefined
  }
  if (/^(?:php|lua|osascript|rscript|julia|elixir|groovy|tclsh)$/.test(program)) {
    return own.some((arg) => /^-[reE]$/.test(arg)) ? code : undefined
  }
  if (program === "emacs") return args.some((arg) => /^--?(?:eval|execute|l|load|f|funcall|script)(?:=|$)/.test(arg)) ? code : undefined
  if (program === "expect") return args.includes("-c") ? code : undefined
  if (program === "deno") return args[0] === "eval" ? code : undefined
  return /^(?:g|m|n)?awk$/.test(program) && args.some((arg) => /\bsystem\s*\(|\|\s*(?:getline|"(?:ba)?sh")|\/inet\//.test(arg))
    ? code
    : undefined
}

const code: Finding = ask("inline code", "script for an interpreter in its arguments (python -c, node -e)")

/** A line of sed whose last command is `s…e`: what it puts in is run. One look from the end, whatever the separator. */
const runsReplacement = (line: string): boolean => {
  const tried = new Set<string>()
  let runs = 0
  for (let at = line.length - 1; at >= 3; at--) {
    const separator = line.charAt(at)
    if (runs === 1 && !tried.has(separator)) {
      tried.add(separator)
      const start = line.indexOf(`s${separator}`)
      const middle = start === -1 ? -1 : line.indexOf(separator, start + 2)
      if (middle !== -1 && middle < at) return true
    }
    if (separator === "e") runs++
    if (runs > 1 || !/[gpIe\d]/.test(separator)) return false
  }
  return false
}

/** Editors, pagers and archivers that can be made to run a program. */
const escapes: Rule = ({ args, program }) => {
  const text = args.join(" ")
  const runs = /^(?:vi|vim|nvim|ex|ed)$/.test(program) && /(?:^|\s)(?:-c\s*|\+)['":]*!|:!|system\(/.test(text) ||
    /^g?tar$/.test(program) && /--(?:to-command|checkpoint-action|use-compress-program)[= ]|(?:^|\s)-I\s/.test(text) && /exec=|\bsh\b/.test(text) ||
    program === "rsync" && args.some((arg, index) => /^-[a-z]*e$|^--rsh/.test(args[index - 1] ?? "") && /\bsh\s+-c/.test(arg)) ||
    /^(?:zip)$/.test(program) && args.some((arg) => /^-TT$|^--unzip-command/.test(arg)) ||
    program === "ssh" && args.some((arg) => /proxycommand|localcommand/i.test(arg)) ||
    program === "gdb" && args.some((arg) => /^(?:shell|!|call\s*\(?void\)?\s*system|python)/.test(arg)) ||
    program === "sed" && args.some((arg) => /(?:^|;)\s{0,16}(?:\d{1,9}|\$)?e(?:\s|$)/.test(arg) || [...arg.split("\n"), ...arg.split(/[\n;}]/)].some(runsReplacement)) ||
    program === "make" && args.some((arg) => /--eval|SHELL=/.test(arg)) ||
    /^(?:scp|sftp)$/.test(program) && args.includes("-S") ||
    program === "tcpdump" && args.includes("-z") ||
    program === "wget" && args.some((arg) => arg.startsWith("--use-askpass")) ||
    program === "git" && args.some((arg) => /^(?:--exec-path=|--upload-pack|ext::)/.test(arg)) ||
    program === "env" && args.some((arg) => /^\(\)\s*\{/.test(arg))
  return runs ? ask("inline code", "program that is made to run another one") : undefined
}

const databases = named(`
  psql mysql mariadb sqlite sqlite3 sqlcmd osql isql duckdb clickhouse clickhouse-client cqlsh cockroach sqlplus
  usql pgcli mycli litecli snowsql bq trino presto hive beeline impala-shell turso wrangler supabase prisma surreal
`)
const textual = named(`
  echo printf cat grep egrep fgrep rg ag ack git gh glab sed awk gawk find fd less more head tail wc diff jq tee
  sort code vim vi nano touch ls test [ rm mkdir cp mv open man curl npm jest vitest pytest claude hermes
`)

const drop = /\bdrop\s+(?:table|database|schema|view|index|user|role|keyspace|collection|owned)\b/i
const truncate = /\btruncate\s+(?:table\s+)?["'`\w]/i
const deletes = /\bdelete\s+from\s+[^\s;]/gi
const updates = /\bupdate\s+[^\s;]{1,200}\s+set\s/gi

/** Finds a statement without a condition: none between its verb and the end of its line, or the next statement. */
const isWhole = (text: string, verb: RegExp): boolean => {
  const found = Array.from(text.matchAll(verb), ({ 0: words, index }) => ({ from: index, to: index + words.length }))
  return found.some(({ to }, index) => {
    const rest = text.slice(to, found[index + 1]?.from)
    const end = rest.search(/[\n;]/)
    return !/\bwhere\b/i.test(end === -1 ? rest : rest.slice(0, end))
  })
}

const statement = (text: string): Finding | undefined => {
  const short = text.length > 100_000 ? text.slice(0, 100_000) : text
  if (drop.test(short)) return ask("database", "SQL DROP")
  if (truncate.test(short)) return ask("database", "SQL TRUNCATE")
  if (isWhole(short, deletes)) return ask("database", "SQL DELETE without WHERE")
  return isWhole(short, updates) ? ask("database", "SQL UPDATE without WHERE") : undefined
}

const database: Rule = (command) => {
  const { args, input, program, redirects, stdin } = command
  const verb = operands(args).join(" ").toLowerCase()
  if (/^(?:dropdb|dropuser)$/.test(program) || program === "mysqladmin" && /\bdrop\b/.test(verb)) {
    return ask("database", "SQL DROP")
  }
  if (program === "redis-cli" && /\bflush(?:all|db)\b/.test(verb)) return ask("database", "emptying of a database")
  if (
    /^(?:mongo|mongosh)$/.test(program) &&
    /dropdatabase|\.drop\(|deletemany\(\s*\{\s*\}|\.remove\(\s*\{\s*\}/i.test(args.join(" "))
  ) {
    return ask("database", "emptying of a database")
  }
  if (/^(?:rails|rake|bin\/rails)$/.test(program) && /\bdb:(?:drop|reset|purge|schema:load|migrate:reset)\b/.test(verb)) {
    return ask("database", "SQL DROP")
  }
  if (/prisma/.test(`${program} ${verb}`) && /\bmigrate reset\b|--force-reset|--accept-data-loss/.test(args.join(" "))) {
    return ask("database", "SQL DROP")
  }
  if (/^(?:php|artisan)$/.test(program) && /\bmigrate:(?:fresh|reset|refresh)\b|\bdb:wipe\b/.test(verb)) {
    return ask("database", "SQL DROP")
  }
  if (
    /^(?:python[\d.]*|django-admin)$/.test(program) &&
    /\b(?:flush|reset_db|sqlflush)\b/.test(verb) &&
    /manage\.py|django/.test(`${program} ${verb}`)
  ) {
    return ask("database", "emptying of a database")
  }
  if (textual.has(program)) return undefined
  const given = statement(args.join("\n"))
  if (given !== undefined) return given
  if (!databases.has(program)) return undefined
  const documents = redirects.filter(({ operator }) => operator.startsWith("<<")).map(({ target }) => target.text)
  const piped = input.filter(({ program }) => /^(?:echo|printf|cat)$/.test(program)).map(({ args }) => args.join(" "))
  return statement([stdin ?? "", ...documents, ...piped].join("\n"))
}

/** True when an argument for a container engine opens the host to the container. */
const opensHost = (arg: string, before: string, after: string): boolean =>
  arg === "--privileged" ||
  /^--(?:pid|userns|ipc|uts)=host$/.test(arg) ||
  arg === "host" && /^--(?:pid|userns|ipc|uts)$/.test(before) ||
  /^--cap-add(?:=|$)/.test(arg) && /ALL|SYS_ADMIN|SYS_PTRACE|SYS_MODULE/i.test(`${arg} ${after}`) ||
  /^(?:\/|\/etc|\/root|\/proc|\/sys|\/dev|~|\/(?:var\/)?run\/docker\.sock):/.test(arg.replace(/^(?:-v|--volume=)/, "")) ||
  /source=\/(?:,|etc|root|$)/.test(arg)

const containers: Rule = ({ args, assignments, program }) => {
  if (assignments.some(([name, value]) => name === "DOCKER_HOST" && /^(?:tcp|ssh):/.test(value))) {
    return ask("container", "another container daemon")
  }
  if (/^(?:docker|podman|nerdctl|docker-compose)$/.test(program)) {
    const [verb = "", what = ""] = operands(args)
    const both = program === "docker-compose" ? `compose ${verb}` : `${verb} ${what}`
    if (args.some((arg, index) => opensHost(arg, args[index - 1] ?? "", args[index + 1] ?? ""))) {
      return ask("container", "container with access to the host")
    }
    if (
      /^(?:system|volume|image|container|builder|network) prune/.test(both) ||
      /^(?:rm|rmi|kill) /.test(both) ||
      /^(?:volume|image|container|network|secret|stack|service) (?:rm|remove|kill|stop)/.test(both) ||
      /^(?:stop|restart|pause) /.test(both) ||
      both.startsWith("swarm leave")
    ) {
      return ask("container", "stopping or removal of containers")
    }
    if (/^compose (?:down|rm|kill|stop|restart)/.test(both)) return ask("container", "stopping or removal of containers")
    if (
      args.some((arg) => /^(?:-H|--host)=?/.test(arg)) &&
      args.some((arg) => /^tcp:|^ssh:/.test(arg.replace(/^--host=/, ""))) 
    ) {
      return ask("container", "another container daemon")
    }
  }
  if (/^(?:kubectl|oc|k)$/.test(program)) {
    const verb = operands(args)[0] ?? ""
    if (
      /^(?:delete|drain|cordon|replace|taint|evict)$/.test(verb) ||
      verb === "scale" && args.some((arg) => /^--replicas=0$/.test(arg)) ||
      /^rollout$/.test(verb) && args.includes("undo")
    ) {
      return ask("container", "removal of what runs in a cluster")
    }
    if (verb === "get" && /^secrets?(?:$|\/)/.test(operands(args)[1] ?? "") && hasFlag(args, "o", ["output"])) {
      return ask("exfiltration", "reading of credentials")
    }
  }
  if (program === "helm" && /^(?:uninstall|delete|rollback)$/.test(args[0] ?? "")) {
    return ask("container", "removal of what runs in a cluster")
  }
  if (
    /^(?:terraform|tofu|terragrunt|pulumi|cdk|serverless|sls)$/.test(program) &&
    (/^(?:destroy|remove)$/.test(operands(args)[0] ?? "") || args.some((arg) => /^-(?:-)?(?:auto-approve|destroy|yes)$/.test(arg) && !/^preview|plan$/.test(args[0] ?? "")))
  ) {
    return ask("container", "change of cloud resources without a question")
  }
  if (program === "aws" && /\b(?:terminate-instances|delete-\w+|rb|rm)\b/.test(operands(args).slice(0, 3).join(" "))) {
    return ask("container", "removal of cloud resources")
  }
  if (
    /^(?:gcloud|az|doctl|heroku|fly|flyctl|gh)$/.test(program) &&
    /\b(?:delete|destroy)\b/.test(operands(args).slice(0, 5).join(" "))
  ) {
    return ask("container", "removal of cloud resources")
  }
  return /^(?:gsutil)$/.test(program) && /\b(?:rm|rb)\b/.test(operands(args)[0] ?? "")
    ? ask("container", "removal of cloud resources")
    : undefined
}

const packages: Rule = ({ args, program }: Command) => {
  const verb = operands(args)[0] ?? ""
  if (/^(?:apt|apt-get|aptitude|dnf|yum|zypper|pacman|apk|brew|snap|dpkg|rpm)$/.test(program)) {
    const removes = /^(?:remove|purge|autoremove|erase|del|uninstall|dist-upgrade|full-upgrade)$/.test(verb) && program !== "brew" ||
      program === "pacman" && args.some((arg) => arg.startsWith("-R")) ||
      /^(?:dpkg|rpm)$/.test(program) && args.some((arg) => /^(?:-r|-P|-e|--purge|--remove|--erase)$/.test(arg))
    return removes ? ask("service", "removal of system packages") : undefined
  }
  return /^(?:npm|yarn|pnpm|cargo|twine|gem)$/.test(program) && /^(?:unpublish|yank|deprecate)$/.test(verb)
    ? ask("history rewriting", "withdrawal of a published package")
    : undefined
}

const secretsInProject: Rule = ({ args, program }) =>
  program === "git" && operands(args)[0] === "add" && operands(args).some((path) => PathClass.isSecret(path)) ? ask("exfiltration", "credentials put under version control") : undefined

/** Code inside a command. */
export const rules: ReadonlyArray<Rule> = [inline, escapes, database, containers, packages, secretsInProject]
