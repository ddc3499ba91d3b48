/**
 * The network of a sandbox: a namespace of its own that all its commands share, and a proxy that lets some hosts be reached.
 *
 * **Details**
 *
 * The proxy runs in this program. A host that the settings list is reached at once; about every other one the tool call that the
 * command belongs to is asked ({@link HostRequests}), which the proxy knows by a password in the address that the command finds in its
 * environment. A program that gives none is told to (407), or reaches the listed hosts only.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessHandle, ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { nodePath } from "../platform/CurrentProcess.ts"
import * as ForwardProxy from "../platform/ForwardProxy.ts"
import { HostRequests } from "./CommandEnvironment.ts"

/** Hosts that commands may reach. */
export interface Hosts {
  /** Setting that lists hosts, for errors. */
  readonly setting: string
  /** True of a host that is reached without a question. */
  readonly isListed: (host: string) => boolean
  /** Addresses of a host, or the reason why it is never reached. */
  readonly addresses: (host: string, port: number) => Effect.Effect<ReadonlyArray<string>, string>
}

/** The proxy of a sandbox. */
interface Proxy {
  readonly socket: string
  /** Password of the tool call that is served, until the scope ends; undefined where nobody is asked. */
  readonly caller: Effect.Effect<string | undefined, never, Scope.Scope>
}

/** Listens on a socket file; fails with the reason of the system. */
export const proxy = Effect.fnUntraced(function*(socket: string, hosts: Hosts): Effect.fn.Return<Proxy, string, Scope.Scope> {
  const scope = yield* Effect.scope
  const callers = new Map<string, HostRequests>()
  const asked = new WeakMap<HostRequests, Map<string, Deferred.Deferred<boolean>>>()

  /** One question for each host and call, however many connections want it. */
  const mayReach = Effect.fnUntraced(function*(requests: HostRequests, host: string, port: number) {
    const questions = asked.get(requests) ?? new Map<string, Deferred.Deferred<boolean>>()
    asked.set(requests, questions)
    const known = questions.get(`${host} ${port}`)
    if (known !== undefined) return yield* Deferred.await(known)
    const question = yield* Deferred.make<boolean>()
    questions.set(`${host} ${port}`, question)
    yield* Effect.forkIn(Deferred.complete(question, requests.ask(host, port)), scope)
    return yield* Deferred.await(question)
  })

  const admit: ForwardProxy.Admission = Effect.fnUntraced(function*(host, port, caller) {
    if (hosts.isListed(host)) return yield* hosts.addresses(host, port)
    const requests = callers.get(caller ?? "")
    if (requests === undefined) return yield* Effect.fail({ reason: `${host} is not among ${hosts.setting}`, isCallerWanted: callers.size > 0 })
    if (yield* mayReach(requests, host, port)) return yield* hosts.addresses(host, port)
    requests.refused.add(host)
    return yield* Effect.fail(`${host} is not among ${hosts.setting}, and was not approved`)
  })

  yield* ForwardProxy.listen(socket, admit)
  const caller = Effect.flatMap(HostRequests, (requests) =>
    requests === undefined ? Effect.undefined : Effect.acquireRelease(
      Effect.sync(() => {
        const password = ForwardProxy.password()
        callers.set(password, requests)
        return password
      }),
      (password) => Effect.sync(() => callers.delete(password))
    ))
  return { socket, caller }
})

const HolderInfo = Schema.fromJsonString(Schema.Struct({ "child-pid": Schema.Int }))

/** Text that a process writes, until it has `end` in it. */
const textUntil = (text: Stream.Stream<Uint8Array, PlatformError>, end: string): Effect.Effect<string, PlatformError> =>
  text.pipe(
    Stream.decodeText(),
    Stream.scan(() => "", (before, more) => before + more),
    Stream.takeUntil((said) => said.includes(end)),
    Stream.runLast,
    Effect.map((last) => last._tag === "Some" ? last.value : "")
  )

/** The network namespace of a sandbox. */
interface Joined {
  /** A process in it. */
  readonly pid: number
  /** Port there on which a proxy answers; undefined where there is none. */
  readonly port: string | undefined
}

/**
 * A network namespace without a network, in which all commands of a sandbox reach each other: one process holds it, and is started again
 * when somebody ended it. With a socket file of a proxy it carries connections there.
 */
export const make = Effect.fnUntraced(function*(spawner: ChildProcessSpawner["Service"], bwrap: string, socket: string | undefined): Effect.fn.Return<
  Effect.Effect<Joined, PlatformError | Schema.SchemaError>,
  never,
  Scope.Scope
> {
  const scope = yield* Effect.scope
  const lock = yield* Semaphore.make(1)
  let held: { readonly handle: ChildProcessHandle; readonly joined: Joined } | undefined
  const holder = socket === undefined ? ["/bin/sh", "-c", "echo ready; read -r _"] : [nodePath, "-e", ForwardProxy.carrier, socket]
  const start = Effect.gen(function*() {
    const end = yield* Deferred.make<void>()
    const handle = yield* spawner.spawn(ChildProcess.make(bwrap, [
      "--unshare-user", "--unshare-net", "--unshare-pid", "--die-with-parent", "--ro-bind", "/", "/", "--info-fd", "3", "--as-pid-1", "--", ...holder
    ], { cwd: "/", env: {}, stdin: Stream.drain(Stream.fromEffect(Deferred.await(end))), killSignal: "SIGKILL", additionalFds: { fd3: { type: "output" } } }))
    // It ends by itself when its input does, which is sooner than what a kill leaves behind is gone.
    yield* Effect.addFinalizer(() => Effect.andThen(Deferred.succeed(end, undefined), Effect.timeoutOption(Effect.ignore(handle.exitCode), "1 second")))
    const info = yield* textUntil(handle.getOutputFd(3), "}")
    // It can be joined when its process runs, and not before.
    const said = yield* textUntil(handle.stdout, "\n")
    const { "child-pid": pid } = yield* Schema.decodeEffect(HolderInfo)(info)
    held = { handle, joined: { pid, port: /^ready (\d+)/.exec(said)?.[1] } }
    return held.joined
  }).pipe(Effect.provideService(Scope.Scope, scope))
  return lock.withPermit(Effect.suspend(() =>
    held === undefined
      ? start
      : Effect.flatMap(Effect.orElseSucceed(held.handle.isRunning, () => false), (isRunning) => isRunning && held !== undefined ? Effect.succeed(held.joined) : start)
  ))
})

/** Arguments of bubblewrap that tell programs of a proxy on a port. */
export const variables = (port: string | undefined, caller: string | undefined): ReadonlyArray<string> =>
  port === undefined ? [] : [
    ...["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"].flatMap((name) => ["--setenv", name, `http://${caller === undefined ? "" : `call:${caller}@`}127.0.0.1:${port}`]),
    ...["NO_PROXY", "no_proxy"].flatMap((name) => ["--setenv", name, "localhost,127.0.0.1,::1"]),
    "--setenv", "NODE_USE_ENV_PROXY", "1"
  ]
