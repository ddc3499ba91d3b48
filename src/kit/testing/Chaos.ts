/**
 * Random faults at a given rate, to test an application with failing models, tools, files and stores. The same seed
 * produces the same faults.
 *
 * **Details**
 *
 * {@link make} creates a source that draws faults at their rates. Several parts can share a source, and then share its
 * sequence. {@link layerProvider}, {@link makeToolMiddleware}, {@link wrapFiles} and {@link layerStore} apply the
 * faults to a part. A failing operation has no effect, except for `cut`, which ends an answer after its first pieces.
 *
 * **Example** (A model that is overloaded every other time)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Offline, RetryPolicy, Runtime } from "hermes-effect"
 * import { Chaos } from "hermes-effect/testing"
 *
 * const provider = Chaos.layerProvider(Offline.layer(), Chaos.make({ seed: 7, rates: { overloaded: 0.5 } }))
 *
 * const run = Effect.isSuccess(Agent.run({ prompt: "Reply exactly hello" }))
 * const runtime = Runtime.layer({ provider, retry: RetryPolicy.none })
 * const runs = Effect.replicateEffect(run, 5).pipe(Effect.provide(runtime))
 *
 * console.log(await Effect.runPromise(runs))
 * // => [ true, true, true, false, false ]
 * ```
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import { type PlatformError, systemError } from "effect/PlatformError"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import * as Struct from "effect/Struct"
import * as AiError from "effect/ai/AiError"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import type { OnPart } from "../../base/domain/ModelCall.ts"
import { ToolFailed } from "../../base/domain/ToolOutput.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import { Provider, type Service } from "../../models/provider/Provider.ts"
import { type Service as StoreService, SessionStore } from "../../store/SessionStore.ts"

/** Kinds of faults. The first five affect models, and the last affects tools, files and stores. */
export type Fault = "overloaded" | "limited" | "unreachable" | "cut" | "silent" | "failed"

/** Seed, and rates from 0 to 1, of faults. */
export interface Options {
  readonly seed: string | number
  readonly rates: Partial<Readonly<Record<Fault, number>>>
}

/** A source of faults. */
export interface Source {
  /**
   * Returns the fault for the next operation, chosen from the given kinds, or `undefined` if the operation succeeds.
   */
  readonly next: (kinds: ReadonlyArray<Fault>) => Fault | undefined
  /** Number of faults so far, by kind. */
  readonly played: ReadonlyMap<Fault, number>
}

/** Computes the FNV-1a hash of a string. */
const hashText = (text: string): number => {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 0
}

/** Creates a source at the beginning of its sequence. */
export const make = ({ rates, seed }: Options): Source => {
  let state = hashText(String(seed))
  // Draws a random number with Mulberry32.
  const drawChance = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
  const played = new Map<Fault, number>()
  return {
    played,
    next: (kinds) => {
      let left = drawChance()
      for (const kind of kinds) {
        left -= rates[kind] ?? 0
        if (left < 0) {
          played.set(kind, (played.get(kind) ?? 0) + 1)
          return kind
        }
      }
      return undefined
    }
  }
}

const makeFailure = (reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "Chaos", method: "execute", reason })

const makeNetworkError = () =>
  new AiError.NetworkError({
    reason: "TransportError",
    method: "POST",
    url: "http://127.0.0.1/chaos",
    description: "the connection broke"
  })

/** Adds faults to a provider: requests may fail, and answers may be cut off. */
export const wrapProvider = (provider: Service, source: Source): Service => ({
  ...provider,
  execute: (request, options) =>
    Effect.suspend(() => {
      switch (source.next(["overloaded", "limited", "unreachable", "cut", "silent"])) {
        case "overloaded":
          return Effect.fail(makeFailure(new AiError.InternalProviderError({ description: "overloaded" })))
        case "limited":
          return Effect.fail(makeFailure(new AiError.RateLimitError({ retryAfter: Duration.seconds(1) })))
        case "unreachable":
          return Effect.fail(makeFailure(makeNetworkError()))
        case "silent":
          return Effect.never
        case "cut": {
          let pieces = 0
          const onPart: OnPart = (parts) =>
            options?.onPart === undefined || ++pieces > 4
              ? Effect.succeed(parts)
              : options.onPart(parts.filter(({ type }) => type !== "finish"))
          return Effect.andThen(
            provider.execute(request, { ...options, onPart }),
            Effect.fail(makeFailure(makeNetworkError()))
          )
        }
        default:
          return provider.execute(request, options)
      }
    })
})

/** Layer of a provider with the faults of {@link wrapProvider}. */
export const layerProvider = <E, R>(layer: Layer.Layer<Provider, E, R>, source: Source): Layer.Layer<Provider, E, R> =>
  Layer.effect(
    Provider,
    Effect.map(Provider, (service) => wrapProvider(service, source))
  ).pipe(Layer.provide(layer))

/** Creates middleware that makes tool calls fail before they run. */
export const makeToolMiddleware = (source: Source) =>
  Middleware.toolExecution({
    name: "chaos",
    wrap:
      (next, { toolName }) =>
      (request) =>
        source.next(["failed"]) === undefined
          ? next(request)
          : Effect.fail(
              new ToolFailed({ tool: toolName, phase: "handler", message: `${toolName} failed, as this test wants it` })
            )
  })

/** File operations that can fail. */
export type FileOperation = Exclude<keyof FileSystem.FileSystem, "~effect/FileSystem">

/** Operations on an open file that can fail. */
type OpenFileOperations = Omit<FileSystem.File, typeof FileSystem.FileTypeId>

/** Makes an operation fail at random. */
type FailSometimes = <A, R>(
  module: "FileSystem" | "File",
  method: string,
  path: string,
  effect: Effect.Effect<A, PlatformError, R>
) => Effect.Effect<A, PlatformError, R>

const makeFailSometimes =
  (source: Source): FailSometimes =>
  <A, R>(module: "FileSystem" | "File", method: string, path: string, effect: Effect.Effect<A, PlatformError, R>) =>
    Effect.suspend((): Effect.Effect<A, PlatformError, R> =>
      source.next(["failed"]) === undefined
        ? effect
        : Effect.fail(
            systemError({
              _tag: "Busy",
              module,
              method,
              pathOrDescriptor: path,
              description: "busy, as this test wants it"
            })
          )
    )

const wrapOpenFile = (failSometimes: FailSometimes, path: string, file: FileSystem.File): FileSystem.File => {
  const all: OpenFileOperations = {
    read: (...args) => failSometimes("File", "read", path, file.read(...args)),
    readAlloc: (...args) => failSometimes("File", "readAlloc", path, file.readAlloc(...args)),
    seek: (...args) => failSometimes("File", "seek", path, file.seek(...args)),
    stat: failSometimes("File", "stat", path, file.stat),
    sync: failSometimes("File", "sync", path, file.sync),
    truncate: (...args) => failSometimes("File", "truncate", path, file.truncate(...args)),
    write: (...args) => failSometimes("File", "write", path, file.write(...args)),
    writeAll: (...args) => failSometimes("File", "writeAll", path, file.writeAll(...args))
  }
  return { ...file, ...all }
}

/**
 * Returns a file system whose operations fail at random: all operations, including those on open files, or only the
 * named ones.
 */
export const wrapFiles = (
  inner: FileSystem.FileSystem,
  source: Source,
  operations?: ReadonlyArray<FileOperation>
): FileSystem.FileSystem => {
  const failSometimes = makeFailSometimes(source)
  const protectOperation = <A, R>(
    method: FileOperation,
    path: string,
    effect: Effect.Effect<A, PlatformError, R>
  ): Effect.Effect<A, PlatformError, R> =>
    operations === undefined || operations.includes(method) ? failSometimes("FileSystem", method, path, effect) : effect
  const all: Pick<FileSystem.FileSystem, FileOperation> = {
    access: (...args) => protectOperation("access", args[0], inner.access(...args)),
    chmod: (...args) => protectOperation("chmod", args[0], inner.chmod(...args)),
    chown: (...args) => protectOperation("chown", args[0], inner.chown(...args)),
    copy: (...args) => protectOperation("copy", args[0], inner.copy(...args)),
    copyFile: (...args) => protectOperation("copyFile", args[0], inner.copyFile(...args)),
    exists: (...args) => protectOperation("exists", args[0], inner.exists(...args)),
    glob: (...args) => protectOperation("glob", args[0], inner.glob(...args)),
    link: (...args) => protectOperation("link", args[0], inner.link(...args)),
    lstat: (...args) => protectOperation("lstat", args[0], inner.lstat(...args)),
    makeDirectory: (...args) => protectOperation("makeDirectory", args[0], inner.makeDirectory(...args)),
    makeTempDirectory: (options) =>
      protectOperation("makeTempDirectory", options?.directory ?? "", inner.makeTempDirectory(options)),
    makeTempDirectoryScoped: (options) =>
      protectOperation("makeTempDirectoryScoped", options?.directory ?? "", inner.makeTempDirectoryScoped(options)),
    makeTempFile: (options) => protectOperation("makeTempFile", options?.directory ?? "", inner.makeTempFile(options)),
    makeTempFileScoped: (options) =>
      protectOperation("makeTempFileScoped", options?.directory ?? "", inner.makeTempFileScoped(options)),
    open: (...args) =>
      Effect.map(protectOperation("open", args[0], inner.open(...args)), (file) =>
        operations === undefined ? wrapOpenFile(failSometimes, args[0], file) : file
      ),
    readDirectory: (...args) => protectOperation("readDirectory", args[0], inner.readDirectory(...args)),
    readDirectoryEntries: (...args) =>
      protectOperation("readDirectoryEntries", args[0], inner.readDirectoryEntries(...args)),
    readFile: (...args) => protectOperation("readFile", args[0], inner.readFile(...args)),
    readFileString: (...args) => protectOperation("readFileString", args[0], inner.readFileString(...args)),
    readLink: (...args) => protectOperation("readLink", args[0], inner.readLink(...args)),
    realPath: (...args) => protectOperation("realPath", args[0], inner.realPath(...args)),
    remove: (...args) => protectOperation("remove", args[0], inner.remove(...args)),
    rename: (...args) => protectOperation("rename", args[0], inner.rename(...args)),
    sink: (...args) =>
      Sink.unwrap(
        protectOperation(
          "sink",
          args[0],
          Effect.sync(() => inner.sink(...args))
        )
      ),
    stat: (...args) => protectOperation("stat", args[0], inner.stat(...args)),
    stream: (...args) =>
      Stream.unwrap(
        protectOperation(
          "stream",
          args[0],
          Effect.sync(() => inner.stream(...args))
        )
      ),
    symlink: (...args) => protectOperation("symlink", args[0], inner.symlink(...args)),
    truncate: (...args) => protectOperation("truncate", args[0], inner.truncate(...args)),
    utimes: (...args) => protectOperation("utimes", args[0], inner.utimes(...args)),
    watch: (...args) =>
      Stream.unwrap(
        protectOperation(
          "watch",
          args[0],
          Effect.sync(() => inner.watch(...args))
        )
      ),
    writeFile: (...args) => protectOperation("writeFile", args[0], inner.writeFile(...args)),
    writeFileString: (...args) => protectOperation("writeFileString", args[0], inner.writeFileString(...args))
  }
  return FileSystem.FileSystem.of({ ...inner, ...all })
}

/** Operations of a session store that can fail. */
export type StoreOperation = Exclude<keyof StoreService, "dropped" | "removeConversation" | "together">

/** Access kind of each operation. */
const storeAccess: Readonly<Record<StoreOperation, "write" | "read">> = {
  acquire: "write",
  answerQuestions: "write",
  append: "write",
  begin: "write",
  begun: "read",
  closeQuestions: "write",
  committed: "write",
  continueIn: "write",
  create: "write",
  end: "write",
  get: "read",
  list: "read",
  listQuestions: "read",
  listSteps: "read",
  messages: "read",
  newest: "read",
  readable: "read",
  recordUsage: "write",
  remove: "write",
  rename: "write",
  resolve: "read",
  storeStep: "write",
  suspend: "write",
  usageByModel: "read"
}

const listStoreOperations = (access: "write" | "read"): ReadonlyArray<StoreOperation> =>
  Struct.keys(storeAccess).filter((name) => storeAccess[name] === access)

/** Operations of a session store that write. */
export const storeWrites: ReadonlyArray<StoreOperation> = listStoreOperations("write")

/** Operations of a session store that read. */
export const storeReads: ReadonlyArray<StoreOperation> = listStoreOperations("read")

/**
 * Layer of a session store whose operations fail at random: all operations, or only the named ones, such as
 * {@link storeWrites}.
 */
export const layerStore = <Other, E, R>(
  layer: Layer.Layer<SessionStore | Other, E, R>,
  source: Source,
  operations: ReadonlyArray<StoreOperation> = [...storeWrites, ...storeReads]
): Layer.Layer<SessionStore | Other, E, R> =>
  Layer.effect(
    SessionStore,
    Effect.map(SessionStore, (inner) => {
      const protectOperation = <A, F, S>(
        operation: StoreOperation,
        effect: Effect.Effect<A, F, S>
      ): Effect.Effect<A, F | SessionStoreError, S> =>
        !operations.includes(operation)
          ? effect
          : Effect.suspend((): Effect.Effect<A, F | SessionStoreError, S> =>
              source.next(["failed"]) === undefined
                ? effect
                : Effect.fail(
                    new SessionStoreError({ operation, message: `${operation} failed, as this test wants it` })
                  )
            )
      const all: Pick<StoreService, StoreOperation> = {
        acquire: (...args) => protectOperation("acquire", inner.acquire(...args)),
        answerQuestions: (...args) => protectOperation("answerQuestions", inner.answerQuestions(...args)),
        append: (...args) => protectOperation("append", inner.append(...args)),
        begin: (...args) => protectOperation("begin", inner.begin(...args)),
        begun: (...args) => protectOperation("begun", inner.begun(...args)),
        closeQuestions: (...args) => protectOperation("closeQuestions", inner.closeQuestions(...args)),
        committed: inner.committed && protectOperation("committed", inner.committed),
        continueIn: (...args) => protectOperation("continueIn", inner.continueIn(...args)),
        create: (...args) => protectOperation("create", inner.create(...args)),
        end: (...args) => protectOperation("end", inner.end(...args)),
        get: (...args) => protectOperation("get", inner.get(...args)),
        list: (...args) => protectOperation("list", inner.list(...args)),
        listQuestions: (...args) => protectOperation("listQuestions", inner.listQuestions(...args)),
        listSteps: (...args) => protectOperation("listSteps", inner.listSteps(...args)),
        messages: (...args) => protectOperation("messages", inner.messages(...args)),
        newest: (...args) => protectOperation("newest", inner.newest(...args)),
        readable: (...args) => protectOperation("readable", inner.readable(...args)),
        recordUsage: (...args) => protectOperation("recordUsage", inner.recordUsage(...args)),
        remove: (...args) => protectOperation("remove", inner.remove(...args)),
        rename: (...args) => protectOperation("rename", inner.rename(...args)),
        resolve: (...args) => protectOperation("resolve", inner.resolve(...args)),
        storeStep: (...args) => protectOperation("storeStep", inner.storeStep(...args)),
        suspend: (...args) => protectOperation("suspend", inner.suspend(...args)),
        usageByModel: (...args) => protectOperation("usageByModel", inner.usageByModel(...args))
      }
      return SessionStore.of({ ...inner, ...all })
    })
  ).pipe(Layer.provideMerge(layer))
