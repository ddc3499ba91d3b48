// The Agent Client Protocol in this process: an agent over a model that plays its answers, and an editor by the
// official client library.
import type * as acp from "@agentclientprotocol/sdk/unstable"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { realpathSync } from "node:fs"
import { join } from "node:path"
import type { PermissionMode } from "../../src/base/config/PermissionMode.ts"
import { RedactSecrets } from "../../src/base/domain/Redaction.ts"
import * as Secrets from "../../src/base/domain/Secrets.ts"
import * as LiveSession from "../../src/serve/host/LiveSession.ts"
import * as ChatCompletions from "../../src/models/provider/ChatCompletions.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as AcpAgent from "../../src/serve/server/acp/AcpAgent.ts"
import * as ChangeSets from "../../src/store/ChangeSets.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Clarify from "../../src/tools/builtin/Clarify.ts"
import * as FileTools from "../../src/tools/builtin/FileTools.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as acpEditor from "./acpEditor.ts"
import * as playedModel from "./playedModel.ts"
import { until } from "./servedAgent.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const Stuck = Tool.make("stuck", { description: "Never ends, and cannot be interrupted", success: Schema.String })
const stuckKit = Toolkit.make(Stuck)

/** A tool that hangs, whatever is asked of it. */
const stuck = Toolset.make("stuck", stuckKit, stuckKit.toLayer({ stuck: () => Effect.uninterruptible(Effect.never) }))

/** Held by the runtime; of no known shape. */
export const held = "correct-Horse7-battery-staple"

/** A session of an editor. */
export const world = Effect.fnUntraced(function* (
  plays: Parameters<typeof playedModel.make>[0],
  clientCapabilities: acp.ClientCapabilities = {},
  mode: PermissionMode = "ask",
  /** Directory with the file of the sessions; by default they are in memory. */
  directory?: string,
  sessions?: ReturnType<typeof SessionStore.layerPostgres>
) {
  const played = yield* playedModel.make(plays)
  const cwd = realpathSync(directory ?? (yield* temporaryDirectory))
  const file = () => SessionStore.layerSqlite({ path: join(cwd, "state.db") })
  const store = directory === undefined ? {} : { store: sessions ?? file() }
  const secrets = Secrets.make()
  secrets.add(held)
  const provider = ChatCompletions.layer({ model: "m", baseUrl: `${played.url}/v1`, apiKey: Redacted.make("upstream") })
  const runtime = yield* Layer.build(
    Runtime.layer({
      provider,
      cwd,
      ...store,
      tools: [Clarify.toolset, FileTools.toolset, TerminalTools.toolset, stuck]
    }).pipe(
      Layer.provideMerge(Layer.mergeAll(Layer.succeed(RedactSecrets, false), Layer.succeed(Secrets.Secrets, secrets)))
    )
  )
  const lives: Array<LiveSession.LiveSession> = []
  let compacting = 0
  const host: AcpAgent.AcpHost = {
    open: Effect.fnUntraced(function* ({ cwd, id }) {
      const live = yield* LiveSession.make({ session: { id, cwd }, cwd, mode })
      lives.push(live)
      const slow = Effect.onInterrupt(
        Effect.andThen(
          Effect.sync(() => compacting++),
          Effect.never
        ),
        () => Effect.sync(() => compacting--)
      )
      const changes = Effect.map(
        Effect.flatMap(live.state, ({ session }) => ChangeSets.readHistory(session.id)),
        ({ runs }) => runs
      )
      return {
        live,
        cwd,
        changes: Effect.provideContext(changes, runtime),
        models: Effect.succeed([]),
        commands: [
          { name: "compact", description: "Slow", run: () => slow },
          { name: "broken", description: "Fails", run: () => Effect.fail("It is broken.") }
        ],
        notices: [],
        window: Effect.undefined
      }
    }, Effect.provideContext(runtime)),
    list: Effect.succeed([]),
    find: (id) =>
      Effect.orDie(
        Effect.map(
          SessionStore.SessionStore.use((store) => store.list({ limit: 100 })),
          (all) => all.find((one) => one.id === id)
        )
      ).pipe(Effect.provideContext(runtime)),
    fork: Effect.succeed,
    remove: () => Effect.void
  }
  const toAgent = new TransformStream<Uint8Array, Uint8Array>()
  const toEditor = new TransformStream<Uint8Array, Uint8Array>()
  const writer = toEditor.writable.getWriter()
  const encoder = new TextEncoder()
  const input = Stream.fromReadableStream({ evaluate: () => toAgent.readable, onError: () => "broken" })
  const served = yield* AcpAgent.serve(host, {
    input,
    write: (text) => void writer.write(encoder.encode(text)).catch(() => undefined)
  }).pipe(Effect.provideService(Secrets.Secrets, secrets), Effect.provide(NodeServices.layer), Effect.forkScoped)
  const editor = acpEditor.make(toAgent.writable, toEditor.readable)
  const initialized = yield* Effect.promise(() => editor.ask("initialize", { protocolVersion: 1, clientCapabilities }))
  const { sessionId } = yield* Effect.promise(() => editor.ask("session/new", { cwd, mcpServers: [] }))
  return { ...played, ...editor, cwd, lives, initialized, sessionId, served, compacting: () => compacting }
})

/** A session of an editor, as the tests have it. */
export type World = Effect.Success<ReturnType<typeof world>>

/** Prompts once more: the session is usable. */
export const usable = async ({ ask, sessionId, textOf }: World): Promise<void> => {
  const before = textOf(sessionId).length
  assert.strictEqual(
    (await ask("session/prompt", { sessionId, prompt: acpEditor.say("hello") })).stopReason,
    "end_turn"
  )
  await until(() => textOf(sessionId).length > before)
  assert.strictEqual(textOf(sessionId).slice(before).trim(), "Hello.")
}
