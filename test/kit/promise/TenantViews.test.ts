// Views of a runtime for a tenant: every member treats the sessions of another tenant as sessions that do not exist, in
// a store of this process and in a file; the views of the tenant itself and the runtime reach them.
import { assert, describe, it } from "vitest"
import { generateText } from "ai"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as z from "zod"
import { Scripted } from "../../../src/index.ts"
import { languageModel, runningModel } from "../../../src/kit/entry/ai-sdk.ts"
import {
  createHermes,
  type Hermes,
  HermesError,
  type HermesOptions,
  type HermesView,
  tool
} from "../../../src/kit/entry/promise.ts"

const stores = {
  memory: () => "memory",
  sqlite: (folder) => ({ sqlite: join(folder, "state.db") })
} as const satisfies Record<string, (folder: string) => HermesOptions["store"]>

const pay = tool({
  name: "pay",
  description: "Pays",
  input: z.object({}),
  execute: async (_, { ask }) => (await ask.text({ title: "Whom?" })) satisfies string
})

const makeRuntime = (store: HermesOptions["store"], onClosed: (sessionId: string) => void = () => {}): Hermes =>
  createHermes({
    on: { on_session_finalize: ({ session_id }) => onClosed(String(session_id)) },
    model: Scripted.layer([
      Scripted.complete("The harbour is blue."),
      Scripted.complete({ toolCalls: [{ name: "pay", params: {}, id: "c1" }] }),
      Scripted.hang()
    ]),
    store,
    tools: [pay],
    questions: { unanswered: "suspend" },
    tenants: [{ id: "acme" }, { id: "zeta" }]
  })

/** Ids of acme's sessions: one that ended, one that waits for an answer, and one with an active run. */
const ended = "session-ended"
const waiting = "session-waiting"
const active = "session-active"
const absent = "session-absent"

/** Prepares the sessions, and returns the id of the question and the cursor of the active run. */
const prepare = async (hermes: Hermes) => {
  const acme = hermes.forTenant("acme")
  await acme.run({ prompt: "Tell me about the harbour", sessionId: ended })
  const { questions } = await acme.run({ prompt: "Pay", sessionId: waiting })
  const stream = acme.stream({ prompt: "Wait", sessionId: active, whenLeft: "continue" })
  await stream.next()
  return { questionId: questions?.[0]?.id ?? "", cursor: stream.cursor, stream }
}

/** Reads events until the reader has no more, or until the active run of another reader waits. */
const readFirst = async (events: AsyncIterableIterator<{ readonly _tag: string }>): Promise<ReadonlyArray<string>> => {
  const first = await events.next()
  await events.return?.()
  return first.done === true ? [] : [first.value._tag]
}

type Use = (view: HermesView, sessionId: string, made: Awaited<ReturnType<typeof prepare>>) => Promise<unknown>

/** Members of a view that name no session of another tenant. */
type OtherMember = "runAll"

/** Each member of a view with the session of the tenant that it is called for. */
const members: Readonly<Record<Exclude<keyof HermesView, OtherMember>, readonly [sessionId: string, use: Use]>> = {
  activeRun: [active, (view, id) => view.activeRun(id)],
  callTool: [ended, (view, sessionId) => view.callTool("pay", {}, { sessionId })],
  compactSession: [ended, (view, id) => view.compactSession(id)],
  deleteSession: [ended, (view, id) => view.deleteSession(id)],
  endSession: [ended, (view, id) => view.endSession(id, { reason: "session_boundary" })],
  listSessions: [ended, async (view, id) => (await view.listSessions()).map((one) => one.id === id)],
  questions: [waiting, (view, sessionId) => view.questions({ sessionId })],
  readSession: [ended, (view, id) => view.readSession(id)],
  resume: [
    waiting,
    (view, sessionId, { questionId }) => view.resume({ sessionId, answers: [{ questionId, answer: "Bob" }] })
  ],
  resumeStream: [
    waiting,
    (view, sessionId, { questionId }) =>
      readFirst(view.resumeStream({ sessionId, answers: [{ questionId, answer: "Bob" }] }))
  ],
  run: [ended, (view, sessionId) => view.run({ prompt: "And now?", sessionId, goesOn: true })],
  stop: [active, (view, id) => view.stop(id)],
  stream: [ended, (view, sessionId) => readFirst(view.stream({ prompt: "And now?", sessionId, goesOn: true }))],
  watch: [active, (view, sessionId) => readFirst(view.watch({ sessionId }))]
}

/** Observes the outcome of a member, with the id of the session replaced. */
const observe = async (outcome: Promise<unknown>, id: string): Promise<unknown> => {
  const settled = await outcome.then(
    (value) => ({ value: value ?? null }),
    (error: unknown) => ({ tag: error instanceof HermesError ? error.tag : "", message: String(error) })
  )
  return JSON.parse(JSON.stringify(settled).replaceAll(id, "ID"))
}

const withRuntime = async (
  kind: keyof typeof stores,
  use: (hermes: Hermes, closed: ReadonlyArray<string>) => Promise<void>
): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), "hermes-views-"))
  const closed: Array<string> = []
  try {
    await using hermes = makeRuntime(stores[kind](folder), (id) => void closed.push(id))
    await use(hermes, closed)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe.each(Object.keys(stores) as ReadonlyArray<keyof typeof stores>)("the view of a tenant, in %s", (kind) => {
  it("treats each session of another tenant as one that does not exist", () =>
    withRuntime(kind, async (hermes, closed) => {
      const made = await prepare(hermes)
      const zeta = hermes.forTenant("zeta")
      for (const [name, [id, use]] of Object.entries(members)) {
        const foreign = await observe(use(zeta, id, made), id)
        const missing = await observe(use(zeta, absent, made), absent)
        // A new session begins where none exists; its id is refused if another tenant has it.
        if (name === "run" || name === "stream")
          assert.match(JSON.stringify(foreign), /SessionStoreError|SessionNotFound|InvalidInput/u, name)
        else assert.deepStrictEqual(foreign, missing, name)
      }
      assert.notInclude(closed, ended)
      assert.deepStrictEqual(await zeta.questions(), [])
      assert.deepStrictEqual(
        (await zeta.listSessions()).filter(({ id }) => id !== absent),
        []
      )
      assert.deepStrictEqual(await readFirst(zeta.watch({ sessionId: active, after: made.cursor })).catch(() => []), [])
      // Nothing has changed for the tenant, and the owner of the application reaches everything.
      for (const view of [hermes.forTenant("acme"), hermes]) {
        assert.strictEqual((await view.readSession(ended))?.length, 2)
        assert.isString(await view.activeRun(active))
        assert.deepStrictEqual(await readFirst(view.watch({ sessionId: active })), ["RunStarted"])
        assert.deepStrictEqual(
          (await view.questions()).map(({ id }) => id),
          [made.questionId]
        )
        assert.isAtLeast((await view.listSessions()).length, 3)
      }
      const busy = await hermes.deleteSession(active).catch((error: unknown) => error)
      assert.deepInclude(busy, { tag: "SessionBusy" })
      await hermes.forTenant("acme").endSession(ended, { reason: "session_boundary" })
      assert.include(closed, ended)
      assert.isTrue(await hermes.forTenant("acme").stop(active))
    }))

  it("runs for no other tenant, and for no unknown one", () =>
    withRuntime(kind, async (hermes) => {
      const zeta = hermes.forTenant("zeta")
      const refuse = async (run: Promise<unknown>) => {
        const error = await run.then(
          () => undefined,
          (error: unknown) => error
        )
        return error instanceof HermesError ? `${error.tag}: ${error.message}` : error
      }
      assert.strictEqual(
        await refuse(zeta.run({ prompt: "go", tenant: "acme" })),
        "TenantRefused: there is no tenant acme"
      )
      assert.strictEqual(
        await refuse(hermes.forTenant("nobody").run({ prompt: "go" })),
        "TenantRefused: there is no tenant nobody"
      )
      assert.deepInclude(await zeta.callTool("pay", {}, { tenant: "acme" }), { isFailure: true })
      assert.strictEqual(hermes.forTenant("zeta"), zeta)
      assert.throws(() => hermes.forTenant(""), /tenant/u)
    }))

  it("limits the models of the AI SDK", () =>
    withRuntime(kind, async (hermes) => {
      const made = await prepare(hermes)
      const zeta = hermes.forTenant("zeta")
      assert.isUndefined(await runningModel(zeta, { sessionId: active }))
      assert.isDefined(await runningModel(hermes.forTenant("acme"), { sessionId: active }))
      const generate = (sessionId: string, messages: Parameters<typeof generateText>[0]["messages"]) =>
        observe(
          generateText({
            model: languageModel(zeta),
            messages: messages ?? [],
            providerOptions: { hermes: { sessionId } },
            maxRetries: 0
          }).then(({ warnings }) => warnings),
          sessionId
        )
      // The messages of the session are not compared with the ones of the call.
      const refused = await generate(ended, [
        { role: "user", content: "Tell me about the harbour" },
        { role: "assistant", content: "The harbour is blue." },
        { role: "user", content: "And now?" }
      ])
      assert.include(JSON.stringify(refused), "SessionStoreError")
      const answered = (id: string) =>
        generate(id, [
          { role: "user", content: "Pay" },
          {
            role: "assistant",
            content: [
              { type: "tool-call", toolCallId: "c1", toolName: "pay", input: {} },
              { type: "tool-approval-request", approvalId: `${id}/${made.questionId}`, toolCallId: "c1" }
            ]
          },
          {
            role: "tool",
            content: [{ type: "tool-approval-response", approvalId: `${id}/${made.questionId}`, approved: true }]
          }
        ])
      assert.deepStrictEqual(await answered(waiting), await answered(absent))
      assert.strictEqual((await hermes.listSessions()).length, 3)
      assert.isTrue(await hermes.forTenant("acme").stop(active))
    }))
})
