// Servers in the work for a tenant: their clients, by the official libraries of the protocols, reach nothing of another
// tenant with which they share the runtime.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { realpathSync } from "node:fs"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Tenants from "../../../src/agent/Tenants.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as Offline from "../../../src/models/provider/Offline.ts"
import * as StudioServer from "../../../src/observe/studio/StudioServer.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as LiveSession from "../../../src/serve/host/LiveSession.ts"
import * as AcpAgent from "../../../src/serve/server/acp/AcpAgent.ts"
import * as ToolServer from "../../../src/serve/server/ToolServer.ts"
import * as SessionFork from "../../../src/store/SessionFork.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { CurrentTenant } from "../../../src/store/TenantScope.ts"
import * as CronJobs from "../../../src/tools/cron/CronJobs.ts"
import * as CronJobTool from "../../../src/tools/builtin/CronJobTool.ts"
import * as MemoryTool from "../../../src/tools/builtin/MemoryTool.ts"
import * as SessionSearchTool from "../../../src/tools/builtin/SessionSearchTool.ts"
import * as MemoryStore from "../../../src/tools/prompt/MemoryStore.ts"
import * as acpEditor from "../../support/acpEditor.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

/** A runtime that acme and zeta share, with a session of acme. */
const makeWorld = Effect.gen(function* () {
  const directory = realpathSync(yield* temporaryDirectory)
  const store = SessionStore.layerSqlite({ path: `${directory}/state.db` })
  const limits = { memory: 2_200, user: 1_375 }
  const runtime = yield* Layer.build(
    Runtime.layer({
      provider: Offline.layer(),
      store,
      cwd: directory,
      tools: [MemoryTool.toolset, SessionSearchTool.toolset, CronJobTool.toolset]
    }).pipe(
      Layer.provideMerge(store),
      Layer.provideMerge(Tenants.layerFrom([{ id: "acme" }, { id: "zeta" }])),
      Layer.provideMerge(MemoryStore.layer({ directory, database: `${directory}/state.db`, limits })),
      Layer.provideMerge(CronJobs.layerMemory),
      Layer.provideMerge(NodeServices.layer)
    )
  )
  const { sessionId } = yield* Effect.provide(
    Agent.run({ prompt: "Reply exactly harbour", tenant: "acme", sessionId: "20250102_030405_aaaaaa" }),
    runtime
  )
  return { directory, runtime, sessionId }
}).pipe(Effect.provide(NodeServices.layer))

const absent = SessionId.make("20250102_030405_bbbbbb")

/** Runs requests of a tenant, and returns their texts with the id of the session replaced. */
const readOutcome = async (request: Promise<unknown>, id: string): Promise<string> => {
  const outcome = await request.then(
    (value) => ({ value: value ?? null }),
    (error: unknown) => ({ error: String(error) })
  )
  return JSON.stringify(outcome).replaceAll(id, "ID")
}

describe("an MCP server in the work for a tenant", () => {
  /** Tools about data that a runtime has, each with a call that shows or changes acme's. */
  const calls = {
    session_search: { query: "harbour" },
    memory: { action: "replace", target: "memory", old_text: "harbour", content: "The harbour is red" },
    cronjob: { action: "list" }
  } as const

  it.live("neither shows nor changes data of another tenant", () =>
    Effect.gen(function* () {
      const { runtime } = yield* makeWorld
      const connect = (tenant: string) =>
        Effect.gen(function* () {
          const handle = yield* ToolServer.makeHandler()
          const client = new Client({ name: tenant, version: "1.0.0" })
          const fetch = (url: string | URL, init?: RequestInit) => handle(new Request(url, init))
          const transport = new StreamableHTTPClientTransport(new URL("http://localhost/mcp"), { fetch })
          yield* Effect.promise(() => client.connect(transport))
          return client
        }).pipe(Effect.provideService(CurrentTenant, tenant), Effect.provide(runtime))
      const [acme, zeta] = [yield* connect("acme"), yield* connect("zeta")]
      yield* Effect.promise(async () => {
        const call = async (client: Client, name: string, args: Record<string, unknown>) =>
          JSON.stringify(await client.callTool({ name, arguments: args }))
        await call(acme, "memory", { action: "add", target: "memory", content: "The harbour is blue" })
        const planned = await call(acme, "cronjob", {
          action: "create",
          name: "harbour report",
          prompt: "Report",
          schedule: "every 2h"
        })
        assert.include(planned, "harbour report")
        for (const [name, args] of Object.entries(calls)) {
          const foreign = await call(zeta, name, args)
          // The query is part of some answers.
          assert.notMatch(foreign, /blue|report|Reply/u, name)
          const own = await call(acme, name, args)
          assert.match(own, /harbour|Saved/u, name)
          assert.notStrictEqual(foreign, own, name)
        }
        await Promise.all([acme.close(), zeta.close()])
      })
    })
  )
})

describe("an ACP server in the work for a tenant", () => {
  const connect = (runtime: Effect.Success<typeof makeWorld>["runtime"], tenant: string) =>
    Effect.gen(function* () {
      const store = Context.get(runtime, SessionStore.SessionStore)
      const fail = ({ message }: { readonly message: string }) => new Error(message)
      const host: AcpAgent.AcpHost = {
        open: ({ cwd, id }) =>
          Effect.map(Effect.provideContext(LiveSession.make({ session: { id, cwd }, cwd }), runtime), (live) => ({
            live,
            cwd,
            models: Effect.succeed([]),
            commands: [],
            notices: [],
            window: Effect.undefined
          })),
        list: Effect.orDie(store.list()),
        find: (id) =>
          store
            .newest(SessionId.make(id))
            .pipe(Effect.flatMap(store.get), Effect.map(Option.getOrUndefined), Effect.mapError(fail), Effect.orDie),
        fork: (session) =>
          Effect.gen(function* () {
            const originals = yield* store.messages(session.id)
            const position = originals.length
            const copy = { history: originals, originals, position, changed: [], source: "acp" }
            return yield* SessionFork.fork(session, copy)
          }).pipe(Effect.orDie, Effect.provideContext(runtime)),
        remove: (id) => Effect.orDie(store.remove(id))
      }
      const toAgent = new TransformStream<Uint8Array, Uint8Array>()
      const toEditor = new TransformStream<Uint8Array, Uint8Array>()
      const writer = toEditor.writable.getWriter()
      const encoder = new TextEncoder()
      yield* AcpAgent.serve(host, {
        input: Stream.fromReadableStream({ evaluate: () => toAgent.readable, onError: () => "broken" }),
        write: (text) => void writer.write(encoder.encode(text)).catch(() => undefined)
      }).pipe(Effect.provideService(CurrentTenant, tenant), Effect.provide(NodeServices.layer), Effect.forkScoped)
      const editor = acpEditor.make(toAgent.writable, toEditor.readable)
      yield* Effect.promise(() => editor.ask("initialize", { protocolVersion: 1, clientCapabilities: {} }))
      return editor
    })

  it.live("lists, loads, forks, changes and deletes no session of another tenant", () =>
    Effect.gen(function* () {
      const { directory: cwd, runtime, sessionId } = yield* makeWorld
      const zeta = yield* connect(runtime, "zeta")
      const store = Context.get(runtime, SessionStore.SessionStore)
      yield* Effect.promise(async () => {
        const requests = {
          "session/load": (id: string) => zeta.ask("session/load", { sessionId: id, cwd, mcpServers: [] }),
          "session/resume": (id: string) => zeta.ask("session/resume", { sessionId: id, cwd, mcpServers: [] }),
          "session/fork": (id: string) => zeta.ask("session/fork", { sessionId: id, cwd, mcpServers: [] }),
          "session/delete": (id: string) => zeta.ask("session/delete", { sessionId: id }),
          "session/close": (id: string) => zeta.ask("session/close", { sessionId: id }),
          "session/set_mode": (id: string) => zeta.ask("session/set_mode", { sessionId: id, modeId: "yolo" }),
          "session/prompt": (id: string) =>
            zeta.ask("session/prompt", { sessionId: id, prompt: acpEditor.say("Reply exactly hello") })
        }
        for (const [name, request] of Object.entries(requests)) {
          const foreign = await readOutcome(request(sessionId), sessionId)
          // The library takes the errors of these requests for success.
          if (!["session/close", "session/delete"].includes(name)) assert.include(foreign, '{"error":', name)
          assert.strictEqual(foreign, await readOutcome(request(absent), absent), name)
        }
        assert.deepStrictEqual((await zeta.ask("session/list", {})).sessions, [])
        assert.notInclude(zeta.wire(), "harbour")
        // A new session of the client is its tenant's.
        const made = await zeta.ask("session/new", { cwd, mcpServers: [] })
        await zeta.ask("session/prompt", { sessionId: made.sessionId, prompt: acpEditor.say("Reply exactly hello") })
        const listed = (await zeta.ask("session/list", {})).sessions
        assert.deepStrictEqual(
          listed.map((one: { readonly sessionId: string }) => one.sessionId),
          [made.sessionId]
        )
      })
      assert.deepStrictEqual((yield* store.list()).map(({ tenant }) => tenant).toSorted(), ["acme", "zeta"])
      assert.strictEqual((yield* store.messages(sessionId)).length, 2)
      const acme = yield* connect(runtime, "acme")
      yield* Effect.promise(async () => {
        await acme.ask("session/load", { sessionId, cwd, mcpServers: [] })
        assert.include(acme.textOf(sessionId), "harbour")
      })
    })
  )
})

describe("a studio in the work for a tenant", () => {
  it.live("shows, exports and changes no session of another tenant", () =>
    Effect.gen(function* () {
      const { directory: home, runtime, sessionId } = yield* makeWorld
      const scope = yield* Scope.Scope
      let replays = 0
      const open = (tenant: string | undefined) =>
        Effect.gen(function* () {
          const { url } = yield* StudioServer.serve({
            port: 0,
            home,
            version: "1",
            models: [],
            exists: Effect.succeed(true),
            replay: () => Effect.sync(() => void replays++)
          })
          const { origin, searchParams } = new URL(url)
          const authorization = `Bearer ${searchParams.get("token")}`
          return async (path: string, body?: unknown) => {
            const response = await fetch(`${origin}${path}`, {
              headers: { authorization, ...(body === undefined ? {} : { "content-type": "application/json" }) },
              ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
            })
            return { status: response.status, text: await response.text() }
          }
        }).pipe(
          Effect.mapError((message) => new Error(message)),
          Effect.provideService(CurrentTenant, tenant),
          Effect.provideContext(runtime),
          Effect.provideService(Scope.Scope, scope)
        )
      const [acme, zeta, owner] = [yield* open("acme"), yield* open("zeta"), yield* open(undefined)]
      /** Requests about one session, and whether they fail without it. */
      const requests: Readonly<Record<string, (id: string) => readonly [path: string, body?: unknown]>> = {
        detail: (id) => [`/api/sessions/${id}`],
        images: (id) => [`/api/sessions/${id}/images/0`],
        workflow: (id) => [`/api/sessions/${id}/workflow`],
        compare: (id) => [`/api/compare?left=${id}&right=${id}`],
        "export as atif": (id) => [`/api/export?format=atif&id=${id}`],
        "export as jsonl": (id) => [`/api/export?format=jsonl&id=${id}`],
        "export as sharegpt": (id) => [`/api/export?format=sharegpt&id=${id}`],
        replay: (id) => [`/api/sessions/${id}/replay`, { position: 0 }],
        scores: (id) => [`/api/sessions/${id}/scores`, { name: "good", value: 1 }],
        notes: (id) => [`/api/sessions/${id}/notes`, { text: "mine" }],
        steer: (id) => [`/api/sessions/${id}/steer`, { text: "mine" }],
        cancel: (id) => [`/api/sessions/${id}/cancel`, {}],
        answer: (id) => [`/api/sessions/${id}/answer`, { question: "q", answer: { choice: "once" } }]
      }
      yield* Effect.promise(async () => {
        const ask = async (as: typeof zeta, name: string, id: string) => {
          const { status, text } = await as(...(requests[name]?.(id) ?? [""]))
          return `${status} ${text.replaceAll(id, "ID")}`
        }
        for (const name of Object.keys(requests)) {
          const foreign = await ask(zeta, name, sessionId)
          assert.strictEqual(foreign, await ask(zeta, name, absent), name)
          assert.notInclude(foreign, "harbour", name)
        }
        assert.strictEqual(replays, 0)
        for (const path of [
          "/api/sessions",
          "/api/sessions?q=harbour",
          "/api/aggregates",
          "/api/export?format=jsonl"
        ]) {
          const { text } = await zeta(path)
          assert.notInclude(text, sessionId, path)
          assert.notInclude(text, "acme", path)
          assert.notInclude(text, "Reply exactly", path)
        }
        assert.strictEqual(JSON.parse((await zeta("/api/sessions")).text).total, 0)
        for (const as of [acme, owner]) {
          assert.strictEqual(JSON.parse((await as("/api/sessions?q=harbour")).text).total, 1)
          assert.include(await ask(as, "export as jsonl", sessionId), "harbour")
          const detail = JSON.parse((await as(`/api/sessions/${sessionId}`)).text)
          assert.deepStrictEqual([detail.notes, detail.scores], [[], []])
        }
      })
    })
  )
})
