// A temporary directory with the file tools bound to it, called as the runtime calls them.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Predicate from "effect/Predicate"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import { SessionId, TaskId, TurnId } from "../../src/base/domain/Ids.ts"
import * as FileState from "../../src/tools/builtin/file/FileState.ts"
import * as PathRoots from "../../src/tools/builtin/file/PathRoots.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import { ConversationHistory, ToolContext } from "../../src/tools/ToolContext.ts"

/** A JSON result, open to any question a test may ask. */
export interface Answer {
  readonly isFailure: boolean
  readonly body: Record<string, unknown>
  /** The JSON text that the model sees. */
  readonly text: string
}

export const session = (name: string): SessionId => SessionId.make(name)

type Tree = ReadonlyArray<readonly [string, string]>

const tree = (fs: FileSystem.FileSystem, dir: string): Effect.Effect<Tree, PlatformError> =>
  Effect.flatMap(fs.readDirectoryEntries(dir), (entries) =>
    Effect.map(
      Effect.forEach(entries, ({ name, type }): Effect.Effect<Tree, PlatformError> => {
        const path = `${dir}/${name}`
        if (type === "Directory") return Effect.map(tree(fs, path), (below) => [[path, type], ...below])
        return Effect.map(type === "SymbolicLink" ? fs.readLink(path) : fs.readFileString(path), (text) => [
          [path, text]
        ])
      }),
      (lists) => lists.flat().sort(([a], [b]) => a.localeCompare(b))
    )
  )

const bind = (fs: FileSystem.FileSystem) =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const dir = yield* fs.realPath(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-files-" }))
    const home = path.join(dir, "home")
    yield* fs.makeDirectory(path.join(home, ".hermes"), { recursive: true })
    const services = yield* Layer.build(
      Layer.merge(
        Layer.fresh(FileState.layer),
        Layer.provide(
          PathRoots.layer({ home, agentHome: path.join(home, ".hermes") }),
          Layer.succeed(FileSystem.FileSystem, fs)
        )
      )
    )
    const environment = yield* Layer.build(
      Layer.fresh(CommandEnvironment.layerLocal).pipe(Layer.provide(Layer.succeed(FileSystem.FileSystem, fs)))
    )
    const tools = yield* FileTools.toolset.bind.pipe(Effect.provideContext(Context.merge(services, environment)))
    const state = yield* FileState.FileState.pipe(Effect.provideContext(services))
    /** What each session was told, as the conversation of a run holds it. */
    const told = new Map<string, Array<string>>()
    const call = Effect.fnUntraced(function* (
      name: string,
      params: Record<string, unknown>,
      options: { readonly session?: string; readonly cwd?: string } = {}
    ) {
      const tool = tools.find((tool) => tool.tool.name === name)
      if (tool === undefined) return yield* Effect.die(`no tool ${name}`)
      const sessionId = session(options.session ?? "s1")
      const history = told.get(sessionId) ?? []
      told.set(sessionId, history)
      const result = yield* tool.run(params, "call_1").pipe(
        Effect.provideService(ConversationHistory, (json) => history.some((text) => text.includes(json))),
        Effect.provideService(ToolContext, {
          sessionId,
          turnId: TurnId.make("t1"),
          taskId: TaskId.make(sessionId),
          cwd: options.cwd ?? dir
        })
      )
      const text = JSON.stringify(result.output)
      history.push(text)
      const body: unknown = result.output
      return Predicate.isObject(body)
        ? ({ isFailure: result.isFailure, body: { ...body }, text } satisfies Answer)
        : yield* Effect.die(`${name} did not return an object: ${text}`)
    })
    const at = (...names: ReadonlyArray<string>): string => path.join(dir, ...names)
    return {
      dir,
      home,
      state,
      call,
      at,
      put: Effect.fnUntraced(function* (name: string, content: string | Uint8Array) {
        const file = path.isAbsolute(name) ? name : at(name)
        yield* fs.makeDirectory(path.dirname(file), { recursive: true })
        yield* typeof content === "string" ? fs.writeFileString(file, content) : fs.writeFile(file, content)
        return file
      }),
      get: (name: string) => fs.readFileString(at(name)),
      exists: (name: string) => fs.exists(at(name)),
      /** Every file below the directory with its content, for "nothing changed". */
      tree: Effect.map(tree(fs, dir), (entries) => Object.fromEntries(entries))
    }
  })

/** A workspace on the real file system, or on what `patch` makes of it (to let an operation fail). */
export const workspace = (patch: (fs: FileSystem.FileSystem) => FileSystem.FileSystem = (fs) => fs) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => bind(patch(fs)))

export const nodeLayer = CommandEnvironment.layerLocal.pipe(Layer.provideMerge(NodeServices.layer))
