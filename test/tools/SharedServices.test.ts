// The services that tools share are the application's where it gives its own.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import {
  Agent,
  Approvals,
  FileTools,
  Hooks,
  ModelRouter,
  RunEvent,
  Runtime,
  Scripted,
  SessionStore,
  TerminalTools,
  ToolRegistry
} from "../../src/index.ts"
import { FileState, PathRoots } from "../../src/kit/entry/tools/files.ts"
import { Todo } from "../../src/kit/entry/tools/planning.ts"
import { ProcessEvents, ProcessRegistry } from "../../src/kit/entry/tools/terminal.ts"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

it.live("FileState, PathRoots, TodoState and ProcessRegistry of the application are those that its tools use", () =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    writeFileSync(join(directory, "a.txt"), "hello\n")
    const used: Array<string> = []
    const note = (what: string) => Effect.sync(() => void used.push(what))

    const files = Layer.effect(
      FileState.FileState,
      Effect.map(FileState.FileState, (state) => ({
        ...state,
        saw: (...given: Parameters<FileState.Service["saw"]>) => Effect.andThen(note("FileState"), state.saw(...given))
      }))
    ).pipe(Layer.provide(FileState.layer))
    const todos = Layer.succeed(Todo.TodoState, {
      get: () => Effect.succeed([{ id: "1", content: "of the application", status: "pending" as const }]),
      set: () => Effect.void,
      remove: () => Effect.void
    })
    const processes = Layer.succeed(ProcessRegistry.ProcessRegistry, {
      start: () => Effect.die("nothing is started"),
      list: () => Effect.as(note("ProcessRegistry"), []),
      find: (id) => Effect.fail(new ProcessRegistry.ProcessNotFound({ id, candidates: [] }))
    })
    const script = Scripted.layer([
      Scripted.complete({
        toolCalls: [
          { name: "read_file", params: { path: "~/a.txt" } },
          { name: "todo", params: {} },
          { name: "process", params: { action: "list" } }
        ]
      }),
      Scripted.complete("done")
    ])
    const agent = Runtime.layerNoDeps({ cwd: directory }).pipe(
      Layer.provide([
        ModelRouter.layer.pipe(Layer.provide(script)),
        SessionStore.layerMemory,
        ToolRegistry.layer([FileTools.toolset, Todo.toolset, TerminalTools.toolset]),
        Approvals.layerDeny()
      ]),
      Layer.provide([files, todos, processes, PathRoots.layer({ home: directory })]),
      Layer.provide([Hooks.layer([]), ProcessEvents.layer]),
      Layer.provide(CommandEnvironment.layerLocal),
      Layer.provide(NodeServices.layer)
    )
    const results: Array<string> = []
    const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
      Effect.sync(() =>
        events.forEach((event) => (event._tag === "ToolFinished" ? results.push(event.output) : undefined))
      )
    const { text } = yield* Effect.provide(Agent.run({ prompt: "go", onEvent }), agent)
    assert.strictEqual(text, "done")
    const [read, todo] = results
    assert.include(read, "hello")
    assert.include(todo, "of the application")
    assert.deepStrictEqual(used, ["FileState", "ProcessRegistry"])
  })
)
