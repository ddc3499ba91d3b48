/**
 * Rules for the sessions of tenants. Within the work for a tenant, each member of a store treats the sessions of other
 * tenants as missing ones.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { SessionId, TurnId } from "../../base/domain/Ids.ts"
import * as Question from "../../base/domain/Question.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { SessionSearch } from "../../store/SessionSearch.ts"
import { type Service, SessionStore } from "../../store/SessionStore.ts"
import { CurrentTenant } from "../../store/TenantScope.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import { makeNewSession, makeToolCalls, makeUserMessage } from "./SessionSamples.ts"

const own = SessionId.make("20250102_030405_aaaaaa")
const foreign = SessionId.make("20250102_030405_bbbbbb")
const next = SessionId.make("next")

const runAs = (tenant: string | undefined) => Effect.provideService(CurrentTenant, tenant)

const makeQuestion = (id: string, sessionId: SessionId): Question.StoredQuestion => ({
  question: {
    id,
    sessionId,
    runId: TurnId.make("run"),
    callId: "c1",
    kind: "text",
    title: "Pay?",
    schema: Question.textSchema,
    createdAt: 1
  },
  place: "1",
  state: "open"
})

/** A session of each of two tenants, with everything that a store has of it. */
const prepareTenants = Effect.gen(function* () {
  const store = yield* SessionStore
  for (const [id, tenant] of [
    [own, "acme"],
    [foreign, "zeta"]
  ] as const) {
    const usage = { ...Usage.zero, inputTokens: 1, requestCount: 1 }
    yield* Effect.gen(function* () {
      yield* store.create(makeNewSession(id, { title: `Harbour of ${tenant}`, cwd: "/tmp/x" }))
      yield* store.append(id, [makeUserMessage("harbour"), makeToolCalls("c1")])
      yield* store.begin(id, ["c1"])
      yield* store.recordUsage(id, {
        provider: "test",
        model: "model-a",
        usage,
        cost: { usd: 0, status: "included", source: "none" }
      })
      yield* store.storeStep(id, { callId: "c1", name: "paid", value: 1 })
      yield* store.suspend(id, { questions: [makeQuestion(`q-${tenant}`, id)], callIds: [], reason: "suspended" })
    }).pipe(runAs(tenant))
  }
  return store
})

const continuation = { provider: "test", model: "m", systemPrompt: "", messages: [], endReason: "done" }

/** Members that do not concern one session, are optional, or have a rule below. */
type OtherMember = "list" | "listQuestions" | "newest" | "together" | "committed" | "dropped" | "removeConversation"

/** Each other member, with its result for a missing session; without one if it fails. */
const members: Readonly<
  Record<
    Exclude<keyof Service, OtherMember>,
    readonly [use: (store: Service, id: SessionId) => Effect.Effect<unknown, unknown>, missing?: unknown]
  >
> = {
  get: [(store, id) => store.get(id), Option.none()],
  messages: [(store, id) => store.messages(id), []],
  readable: [(store, id) => store.readable(id), { messages: [], faults: [] }],
  begun: [(store, id) => store.begun(id), new Set()],
  usageByModel: [(store, id) => store.usageByModel(id), []],
  listSteps: [(store, id) => store.listSteps(id), []],
  answerQuestions: [
    (store, id) => store.answerQuestions(id, [{ questionId: "q-zeta", answer: "yes", by: undefined, answeredAt: 7 }]),
    false
  ],
  resolve: [(store, id) => store.resolve(id)],
  acquire: [(store, id) => Effect.scoped(store.acquire(id))],
  create: [(store, id) => store.create(makeNewSession(next, { continues: id, parentId: id }))],
  begin: [(store, id) => store.begin(id, ["c2"])],
  append: [(store, id) => store.append(id, [makeUserMessage("more")])],
  recordUsage: [
    (store, id) =>
      store.recordUsage(id, {
        provider: "test",
        model: "model-a",
        usage: Usage.zero,
        cost: { usd: 0, status: "included", source: "none" }
      })
  ],
  end: [(store, id) => store.end(id, "done")],
  rename: [(store, id) => store.rename(id, "Mine")],
  suspend: [(store, id) => store.suspend(id, { questions: [], callIds: ["c1"], reason: "done" })],
  closeQuestions: [(store, id) => store.closeQuestions(id, ["c1"], "withdrawn")],
  storeStep: [(store, id) => store.storeStep(id, { callId: "c1", name: "more", value: 1 })],
  continueIn: [(store, id) => store.continueIn(id, { ...continuation, id: next })],
  remove: [(store, id) => store.remove(id)]
}

/** Rules for the sessions of tenants. */
export const rules: ReadonlyArray<Conformance.Rule<SessionStore | SessionSearch>> = [
  ...Object.entries(members).map(([name, [use, missing]]) =>
    Conformance.makeTimedRule(
      "tenants",
      `${name} treats the session of another tenant as a missing one`,
      Effect.gen(function* () {
        const store = yield* prepareTenants
        const before = yield* store.messages(foreign)
        const asked = runAs("acme")(use(store, foreign))
        if (missing === undefined) yield* Effect.flip(asked)
        else Check.equals(yield* asked, missing)
        Check.equals(yield* store.messages(foreign), before)
        Check.hasFields(Option.getOrThrow(yield* store.get(foreign)), { endReason: "suspended", tenant: "zeta" })
      })
    )
  ),
  Conformance.makeTimedRule(
    "tenants",
    "newest follows no session of another tenant",
    Effect.gen(function* () {
      const store = yield* prepareTenants
      yield* runAs("zeta")(store.continueIn(foreign, { ...continuation, id: next }))
      Check.equals(yield* runAs("acme")(store.newest(foreign)), foreign)
      Check.equals(yield* runAs("zeta")(store.newest(foreign)), next)
    })
  ),
  Conformance.makeTimedRule(
    "tenants",
    "sessions are listed by tenant",
    Effect.gen(function* () {
      const store = yield* prepareTenants
      const listIds = Effect.map(store.list(), (sessions) => sessions.map(({ id }) => String(id)).toSorted())
      Check.equals(yield* runAs("acme")(listIds), [own])
      Check.equals(yield* listIds, [own, foreign])
      Check.equals(
        (yield* store.list({ tenant: "zeta" })).map(({ id }) => id),
        [foreign]
      )
    })
  ),
  Conformance.makeTimedRule(
    "tenants",
    "questions are listed by tenant",
    Effect.gen(function* () {
      const store = yield* prepareTenants
      const listIds = Effect.map(store.listQuestions(), (questions) => questions.map(({ question }) => question.id))
      Check.equals(yield* runAs("acme")(listIds), ["q-acme"])
      Check.equals((yield* listIds).toSorted(), ["q-acme", "q-zeta"])
    })
  ),
  Conformance.makeTimedRule(
    "tenants",
    "a session belongs to the tenant that begins it, whatever it asks for",
    Effect.gen(function* () {
      const store = yield* SessionStore
      const made = yield* runAs("acme")(store.create(makeNewSession(own, { tenant: "zeta" })))
      Check.equals(made.tenant, "acme")
    })
  ),
  Conformance.makeTimedRule(
    "tenants",
    "an id that is used again belongs to its new tenant alone",
    Effect.gen(function* () {
      const store = yield* prepareTenants
      yield* runAs("acme")(Effect.scoped(Effect.andThen(store.acquire(own), store.end(own, "done"))))
      yield* store.remove(own)
      yield* runAs("zeta")(store.create(makeNewSession(own)))
      Check.equals(yield* runAs("acme")(store.get(own)), Option.none())
    })
  ),
  Conformance.makeTimedRule(
    "tenants",
    "search finds the messages of a tenant alone",
    Effect.gen(function* () {
      yield* prepareTenants
      const { search } = yield* SessionSearch
      const listIds = Effect.map(search("harbour"), (hits) => hits.map(({ sessionId }) => String(sessionId)).toSorted())
      Check.equals(yield* runAs("acme")(listIds), [own])
      Check.equals(yield* listIds, [own, foreign])
    })
  ),
  Conformance.makeTimedRule(
    "tenants",
    "titles are unique within a tenant only",
    Effect.gen(function* () {
      const store = yield* SessionStore
      for (const [id, tenant] of [
        [own, "acme"],
        [foreign, "zeta"],
        [next, undefined]
      ] as const)
        yield* runAs(tenant)(store.create(makeNewSession(id, { title: "Harbour" })))
      const other = SessionId.make("other")
      for (const [tenant, owner] of [
        ["acme", own],
        ["zeta", foreign],
        [undefined, next]
      ] as const) {
        const created = yield* Effect.flip(runAs(tenant)(store.create(makeNewSession(other, { title: "Harbour" }))))
        Check.includes(created.message, owner)
        yield* runAs(tenant)(store.create(makeNewSession(other, { title: "Quay" })))
        const renamed = yield* Effect.flip(runAs(tenant)(store.rename(other, "Harbour")))
        Check.includes(renamed.message, owner)
        // The caller without a tenant renames the session of a tenant, within the titles of that tenant.
        Check.includes((yield* Effect.flip(store.rename(other, "Harbour"))).message, owner)
        yield* runAs(tenant)(store.remove(other))
      }
    })
  ),
  Conformance.makeTimedRule(
    "tenants",
    "a title means the session of the tenant, and without one the session without a tenant",
    Effect.gen(function* () {
      const store = yield* SessionStore
      const resolveTitle = Effect.map(store.resolve("Harbour"), ({ id }) => String(id))
      yield* runAs("acme")(store.create(makeNewSession(own, { title: "Harbour" })))
      Check.equals(yield* resolveTitle, own)
      yield* runAs("zeta")(store.create(makeNewSession(foreign, { title: "Harbour" })))
      const ambiguous = yield* Effect.flip(store.resolve("Harbour"))
      Check.equals(ambiguous._tag === "SessionNotFound" ? ambiguous.candidates.toSorted() : [], [own, foreign])
      yield* store.create(makeNewSession(next, { title: "Harbour" }))
      Check.equals(yield* resolveTitle, next)
      Check.equals(yield* runAs("acme")(resolveTitle), own)
      Check.equals(yield* runAs("zeta")(resolveTitle), foreign)
    })
  ),
  Conformance.makeTimedRule(
    "tenants",
    "continuations are numbered within a tenant",
    Effect.gen(function* () {
      const store = yield* SessionStore
      yield* runAs("acme")(store.create(makeNewSession(own, { title: "Harbour #7" })))
      yield* runAs("zeta")(store.create(makeNewSession(foreign, { title: "Harbour" })))
      const continued = yield* runAs("zeta")(store.continueIn(foreign, { ...continuation, id: next }))
      Check.equals(continued.title, "Harbour #2")
    })
  )
]
