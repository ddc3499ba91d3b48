/**
 * The gate ({@link EgressGate}) for commands outside a sandbox. It determines the hosts that the HTTP clients in a
 * command line reach.
 *
 * **Details**
 *
 * For `curl` and `wget` with one clear address, the user is asked about the host. An approval holds for that host and
 * port, and for no subdomain or other port. An approval holds for that host and port, for no subdomain and no other
 * port. If the destination cannot be read from the command (several addresses, a variable, a proxy, a configuration
 * file, an unknown flag), the user is asked about the command.
 *
 * **Gotchas**: this is defense in depth and not a security boundary: other programs can reach any host, and a redirect
 * that `curl` or `wget` follows is not noticed. A sandbox sees every connection.
 *
 * Source: `ARCHITECTURE.md` §7 (approvals), `hermes-llm.md` §19.5.
 */
import * as Effect from "effect/Effect"
import { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import type { Concern } from "../approval/ApprovalRequest.ts"
import { type Command, parseNames } from "../danger/Command.ts"
import * as ScriptInterpreter from "../danger/ScriptInterpreter.ts"
import * as Toolset from "../Toolset.ts"
import * as EgressGate from "./EgressGate.ts"
import * as Urls from "./Urls.ts"

const unclear: Concern = { key: "request to a host that cannot be read from the command", permanent: true }

interface Client {
  /** Letters of short flags that take no value; `shortValued` contains the letters with a value. */
  readonly short: string
  readonly shortValued: string
  readonly long: ReadonlySet<string>
  readonly longValued: ReadonlySet<string>
}

const curl: Client = {
  short: "sSLkvifIgGOJN#46q0R",
  shortValued: "odHXAbceumwFTrCyYzDE",
  long: parseNames(`
    silent show-error location insecure verbose include head fail fail-with-body globoff get remote-name
    remote-name-all compressed ipv4 ipv6 http1.0 http1.1 http2 no-progress-meter progress-bar create-dirs
    remote-header-name no-buffer tlsv1.2 tlsv1.3 retry-all-errors retry-connrefused no-clobber fail-early
  `),
  longValued: parseNames(`
    output data data-raw data-binary data-urlencode data-ascii json header request user-agent cookie cookie-jar referer
    user max-time connect-timeout write-out form form-string upload-file range continue-at dump-header cert key cacert
    capath retry retry-delay retry-max-time limit-rate max-filesize max-redirs oauth2-bearer output-dir url-query
    speed-limit speed-time
  `)
}

const wget: Client = {
  short: "qvcNS46x",
  shortValued: "OPoatTUw",
  long: parseNames(`
    quiet verbose no-verbose continue timestamping server-response no-check-certificate content-disposition no-clobber
    show-progress spider no-cache https-only inet4-only inet6-only no-directories
  `),
  longValued: parseNames(`
    output-document directory-prefix output-file append-output header user-agent referer post-data post-file method
    body-data body-file timeout tries wait limit-rate user password load-cookies save-cookies
  `)
}

const others = parseNames(
  "http https xh xhs aria2c axel lynx w3m links elinks fetch iwr irm invoke-webrequest invoke-restmethod httpie curlie"
)
const appending = parseNames("xargs parallel")

/** Returns the address argument of `curl` and similar programs as written; `undefined` unless there is exactly one. */
const readAddress = ({ args }: Command, { long, longValued, short, shortValued }: Client): string | undefined => {
  const found: Array<string> = []
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? ""
    if (!arg.startsWith("-") || arg === "-") found.push(arg)
    else if (arg.startsWith("--")) {
      const at = arg.indexOf("=")
      const name = arg.slice(2, at === -1 ? undefined : at)
      if (name === "url") found.push(at === -1 ? (args[++index] ?? "") : arg.slice(at + 1))
      else if (longValued.has(name)) index += at === -1 ? 1 : 0
      else if (!long.has(name)) return undefined
    } else if (!/^-n[vcdpH]$/.test(arg)) {
      const letters = Array.from(arg.slice(1))
      const valued = letters.findIndex((letter) => shortValued.includes(letter))
      if (!letters.slice(0, valued === -1 ? undefined : valued).every((letter) => short.includes(letter)))
        return undefined
      if (valued !== -1 && valued === letters.length - 1) index++
    }
  }
  return found.length === 1 ? found[0] : undefined
}

/** Maximum number of characters of a DNS name. */
const maxHost = 253

/**
 * Returns the host and port of an address that every client parses in the same way; `undefined` if that is not certain.
 */
const parseHost = (address: string): string | undefined => {
  const parts = /^(?:(https?):\/\/)?([a-z0-9][a-z0-9.-]*|\[[0-9a-f:.]+\])(:\d{1,5})?(?:[/?#][!-~]*)?$/i.exec(address)
  const [, scheme = "http", host = "", port = ""] = parts ?? []
  if (parts === null || host.length > maxHost || /[\\@`{}]/.test(address.split(/[?#]/, 1)[0] ?? "")) return undefined
  const text = `${scheme.toLowerCase()}://${host}${port}/`
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  return url.hostname === host.toLowerCase() ? Urls.formatHost(url) : undefined
}

const findCommandConcern = (command: Command): Concern | undefined => {
  const client = command.program === "curl" ? curl : command.program === "wget" ? wget : undefined
  if (client === undefined) return others.has(command.program) ? unclear : undefined
  if (
    command.args.length === 0 ||
    (command.args.length === 1 && /^(?:-V|-h|--version|--help)$/.test(command.args[0] ?? ""))
  )
    return undefined
  const isWritten =
    command.assignments.length === 0 &&
    // A query (`?a=b`) is not a glob that could name another host.
    command.fields.every(
      ({ commands, glob, text, unknown }) =>
        !unknown && commands.length === 0 && (!glob || /^https?:\/\/[^/?#*[]+\//i.test(text))
    ) &&
    !command.wrappers.some((wrapper) => appending.has(wrapper))
  const address = isWritten ? readAddress(command, client) : undefined
  const host = address === undefined ? undefined : parseHost(address)
  return host === undefined ? unclear : EgressGate.makeHostConcern(host)
}

/** Returns concerns about the hosts that the clients in a command line reach. */
export const findLineConcerns = (line: string): ReadonlyArray<Concern> => {
  const { commands } = ScriptInterpreter.read(line)
  const concerns = commands.flatMap((command) => findCommandConcern(command) ?? [])
  // A proxy, or a client under another name, changes every destination.
  const isRedirected =
    concerns.length > 0 &&
    commands.some(
      ({ args, assignments, inside, program }) =>
        program === "alias" ||
        inside.length > 0 ||
        [...args, ...assignments.map(([name]) => name)].some((text) => /^-*[\w-]*proxy\b/i.test(text))
    )
  return EgressGate.dropRepetitions(isRedirected ? [...concerns, unclear] : concerns)
}

const none = Effect.succeed<ReadonlyArray<Concern>>([])

/**
 * Returns a `terminal` toolset that asks about the hosts of its network clients if commands run without a sandbox. In a
 * sandbox, either the sandbox asks about every host, or the settings grant network access.
 */
export const guardCommands = <E, R>(toolset: Toolset.Toolset<E, R>): Toolset.Toolset<E, R | CommandEnvironment> =>
  Toolset.withConcerns(
    toolset,
    Effect.map(
      Effect.all([Urls.UrlPolicy, CommandEnvironment]),
      ([policy, { isConfined }]) =>
        (tool, { command }) =>
          policy.unknownHosts !== "ask" || isConfined || tool !== "terminal" || typeof command !== "string"
            ? none
            : Effect.sync(() =>
                findLineConcerns(command).filter(
                  ({ target }) => target?.kind !== "host" || !EgressGate.isListed(policy, target.text)
                )
              )
    )
  )
