/**
 * Runs the proxy through which the commands of a sandbox reach the allowed hosts.
 *
 * **Details**
 *
 * The proxy runs in this program. A host that the settings list can be reached immediately, unless a rule of
 * `permissions` refuses it for the tool call of the command. For every other host, the user of that call is asked
 * ({@link HostRequests}). The proxy identifies the call by a password in the address that the command finds in its
 * environment. A program without a password is asked for one (407), or reaches only the listed hosts. A socket file is
 * in a directory of this user and inside of one sandbox. Every user and program of the machine can connect to a port.
 * All passwords of its sandbox therefore begin with a secret, without which no host can be reached, listed or not.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type * as Scope from "effect/Scope"
import * as ForwardProxy from "../base/platform/ForwardProxy.ts"
import { isSecret, makeSecret } from "../base/platform/SharedSecret.ts"
import { HostRequests } from "./CommandEnvironment.ts"
import { isWithin } from "./SandboxRules.ts"

/** Settings for the hosts that commands may reach. */
export interface Hosts {
  /** Setting that lists hosts, for errors. */
  readonly setting: string
  /** Returns true for a host that can be reached without a question. */
  readonly isListed: (host: string) => boolean
  /** Returns the addresses of a host, or fails with the reason why the host can never be reached. */
  readonly addresses: (host: string, port: number) => Effect.Effect<ReadonlyArray<string>, string>
}

/** The proxy of a sandbox. */
interface Proxy {
  /** Port of the loopback address, `undefined` if the proxy listens on a socket file. */
  readonly port: number | undefined
  /**
   * Password of the commands of the current tool call. The user can be asked about hosts until the scope closes.
   * `undefined` if the user is not asked and no other program can reach the proxy.
   */
  readonly caller: Effect.Effect<string | undefined, never, Scope.Scope>
}

/** Opens a proxy that listens at an address. Fails with the reason from the system. */
export const openProxy = Effect.fnUntraced(function* (
  place: ForwardProxy.ListenPlace,
  hosts: Hosts
): Effect.fn.Return<Proxy, string, Scope.Scope> {
  const scope = yield* Effect.scope
  const callers = new Map<string, HostRequests>()
  const asked = new WeakMap<HostRequests, Map<string, Deferred.Deferred<boolean>>>()

  /** Asks one question for each host and call, even if several connections need the host. */
  const mayReach = Effect.fnUntraced(function* (requests: HostRequests, host: string, port: number, isListed: boolean) {
    const questions = asked.get(requests) ?? new Map<string, Deferred.Deferred<boolean>>()
    asked.set(requests, questions)
    const known = questions.get(`${host} ${port}`)
    if (known !== undefined) return yield* Deferred.await(known)
    const question = yield* Deferred.make<boolean>()
    questions.set(`${host} ${port}`, question)
    yield* Effect.forkIn(Deferred.complete(question, requests.ask(host, port, isListed)), scope)
    return yield* Deferred.await(question)
  })

  const secret = yield* makeSecret
  const isShared = "port" in place
  const isMember = (caller = ""): boolean => !isShared || isSecret(caller.slice(0, secret.length), secret)

  const admitHost: ForwardProxy.Admission = Effect.fnUntraced(function* (host, port, caller) {
    if (!isMember(caller)) {
      return yield* Effect.fail({ reason: "this proxy serves the commands of one sandbox", isCallerWanted: true })
    }
    const isListed = hosts.isListed(host)
    const requests = callers.get(caller ?? "")
    if (requests === undefined && isListed) return yield* hosts.addresses(host, port)
    if (requests === undefined)
      return yield* Effect.fail({ reason: `${host} is not among ${hosts.setting}`, isCallerWanted: callers.size > 0 })
    if (yield* mayReach(requests, host, port, isListed)) return yield* hosts.addresses(host, port)
    requests.refused.add(host)
    return yield* Effect.fail(
      isListed
        ? `${host} is refused by a rule of permissions`
        : `${host} is not among ${hosts.setting}, and was not approved`
    )
  })

  const port = yield* ForwardProxy.listen(place, admitHost)
  const caller = Effect.flatMap(HostRequests, (requests) =>
    requests === undefined
      ? Effect.succeed(isShared ? secret : undefined)
      : Effect.acquireRelease(
          Effect.sync(() => {
            const password = `${secret}.${ForwardProxy.makePassword()}`
            callers.set(password, requests)
            return password
          }),
          (password) => Effect.sync(() => callers.delete(password))
        )
  )
  return { port, caller }
})

/** Builds the variables that name a proxy on a port of the loopback address. Empty without a proxy. */
export const buildVariables = (
  port: string | undefined,
  caller: string | undefined
): Readonly<Record<string, string>> => {
  if (port === undefined) return {}
  const address = `http://${caller === undefined ? "" : `call:${caller}@`}127.0.0.1:${port}`
  const direct = "localhost,127.0.0.1,::1"
  return {
    HTTP_PROXY: address,
    HTTPS_PROXY: address,
    http_proxy: address,
    https_proxy: address,
    NO_PROXY: direct,
    no_proxy: direct,
    NODE_USE_ENV_PROXY: "1"
  }
}

/** Reads the paths of sockets that others can connect to from the text of `/proc/net/unix`. Pure. */
export const parseSocketPaths = (text: string): ReadonlyArray<string> => {
  const paths = text
    .split("\n")
    .slice(1)
    .flatMap((line) => {
      const match = /^\S+ \S+ \S+ (\S+) (\S+) \S+ +\d+ (\/.*)$/.exec(line)
      if (match === null) return []
      const [, flags = "0", type, path = ""] = match
      // A stream socket can be reached while it listens, a datagram socket always.
      const isReachable = type === "0002" || (Number.parseInt(flags, 16) & 0x10000) !== 0
      return isReachable ? [path] : []
    })
  return [...new Set(paths)]
}

/** Directories that the sandbox hides as a whole. */
const covered = ["/run", "/var/run", "/tmp", "/var/tmp", "/proc", "/dev"]

/**
 * Lists the Unix sockets of services that commands must not reach, so that the sandbox can hide them: a read-only mount
 * does not prevent a connection. `/proc/net/unix` lists the sockets of this network namespace. Sockets in `trees` and
 * `named` are left out.
 */
export const listServiceSockets = Effect.fnUntraced(function* (
  trees: ReadonlyArray<string>,
  named: ReadonlyArray<string>
) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* fs.readFileString("/proc/net/unix").pipe(
    // The system is not Linux, or its kernel has no Unix sockets. After any other error no command runs, because a
    // socket could be reached.
    Effect.catchIf(
      ({ reason: { _tag } }) => _tag === "NotFound",
      () => Effect.succeed("")
    )
  )
  return parseSocketPaths(text).filter(
    (path) =>
      !covered.some((directory) => isWithin(path, directory)) &&
      !trees.some((tree) => isWithin(path, tree)) &&
      !named.includes(path)
  )
})
