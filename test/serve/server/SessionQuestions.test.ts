// Runs of a served agent that wait: their questions over HTTP, the answers, and the continued run, also behind a
// restart of the server.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { existsSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { readEvents, until, user, world } from "../../support/servedAgent.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const remove = { calls: [["terminal", { command: "rm -rf build" }]] } as const
const plays = { "remove it": [remove, { text: "Removed." }], next: [{ text: "Something else." }] } as const
const suspend = { questions: { unanswered: "suspend" } } as const

type Served = Effect.Success<ReturnType<typeof world>>
type Ask = (path: string, json?: unknown) => ReturnType<Served["fetched"]>

const askBy =
  ({ fetched }: Served, key?: string): Ask =>
  (path, json) =>
    fetched(path, {
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
      ...(json === undefined ? {} : { json })
    })

/** Begins a session whose run is suspended; gives its id and its question. */
const suspended = async (served: Served, ask: Ask, key?: string) => {
  mkdirSync(join(served.cwd, "build"), { recursive: true })
  const { body: session } = await ask("/v1/sessions", suspend)
  const id: string = session.id
  const headers = key === undefined ? served.authorized : { authorization: `Bearer ${key}` }
  const reader = readEvents(`${served.url}/v1/sessions/${id}/events`, headers)
  await ask(`/v1/sessions/${id}/messages`, { prompt: "remove it" })
  await until(() => reader.types().includes("turn_ended"))
  await reader.stop()
  const { body } = await ask(`/v1/sessions/${id}/questions`)
  return { id, reader, questions: body.data }
}

const answer = (questionId: string, given: unknown = { choice: "once" }) => ({
  answers: [{ question_id: questionId, answer: given }]
})

const outcome = ({ body, status }: Awaited<ReturnType<Ask>>) => [status, body.error?.code]

describe("a served run that waits", () => {
  it.live("ends with its question among its events, and continues with the answer as a stream", () =>
    Effect.flatMap(world(plays), (served) =>
      Effect.promise(async () => {
        const ask = askBy(served)
        const { id, questions, reader } = await suspended(served, ask)
        assert.notInclude(reader.types(), "approval_asked")
        const asked = reader.events.find(({ data }) => data["type"] === "QuestionAsked")?.data
        assert.deepInclude(asked?.["question"], { kind: "approval", tool: "terminal" })
        assert.strictEqual(reader.events.at(-1)?.data["exit"], "suspended")
        assert.strictEqual(questions.length, 1)
        assert.deepInclude(questions[0], { session_id: id, kind: "approval", tool: "terminal" })
        assert.deepInclude(asked?.["question"], { id: questions[0].id })
        assert.isTrue(existsSync(join(served.cwd, "build")))

        const { body, status } = await ask(`/v1/sessions/${id}/answers`, { ...answer(questions[0].id), stream: true })
        assert.strictEqual(status, 200)
        assert.match(body, /"type":"ToolFinished".*"text":"Removed\.".*/su)
        assert.match(
          body.trimEnd().split("\n").at(-1),
          /"type":"turn_ended".*"exit":"text_response","text":"Removed\."/u
        )
        assert.isFalse(existsSync(join(served.cwd, "build")))
        assert.deepStrictEqual((await ask(`/v1/sessions/${id}/questions`)).body.data, [])
      })
    )
  )

  it.live("takes each answer once, and says what is wrong with the others", () =>
    Effect.flatMap(world(plays, { questions: { expiresAfter: "1 hour" } }), (served) =>
      Effect.promise(async () => {
        const ask = askBy(served)
        const { id, questions } = await suspended(served, ask)
        const path = `/v1/sessions/${id}/answers`
        const question = questions[0].id
        assert.isAbove(questions[0].expires_at, questions[0].created_at)
        assert.deepStrictEqual(outcome(await ask(path, answer("q_0"))), [404, "question_unknown"])
        const invalid = await ask(path, answer(question, { choice: "maybe" }))
        assert.deepStrictEqual(outcome(invalid), [400, "answer_invalid"])
        assert.include(invalid.body.error.message, "choice")
        assert.deepStrictEqual(outcome(await ask(path, { answers: [{ question_id: question }] })), [
          400,
          "invalid_request"
        ])
        assert.deepStrictEqual(outcome(await ask(`/v1/sessions/nowhere/answers`, answer(question))), [
          404,
          "session_not_found"
        ])
        const both = await Promise.all([ask(path, answer(question)), ask(path, answer(question, { choice: "deny" }))])
        assert.deepStrictEqual(both.map(({ status }) => status).toSorted(), [202, 409])
        const reader = readEvents(`${served.url}/v1/sessions/${id}/events`, served.authorized)
        await until(() => reader.types().filter((type) => type === "turn_ended").length === 2)
        await reader.stop()
        assert.deepStrictEqual(outcome(await ask(path, answer(question))), [409, "question_answered"])
        assert.deepStrictEqual(outcome(await ask(path, { answers: [] })), [409, "nothing_waits"])
      })
    )
  )

  it.live("gives a client that lost the stream of its answer the rest", () =>
    Effect.flatMap(world(plays), (served) =>
      Effect.promise(async () => {
        const ask = askBy(served)
        const { id, questions } = await suspended(served, ask)
        const { body } = await ask(`/v1/sessions/${id}/answers`, { ...answer(questions[0].id), stream: true })
        const events = Array.from(String(body).matchAll(/^id: (\d\S*)\ndata: (.*)$/gmu), ([, at = "", data = ""]) => ({
          id: Number.parseInt(at, 10),
          at,
          data: JSON.parse(data)
        }))
        const headers = { ...served.authorized, "last-event-id": `${events[1]?.at}` }
        const reader = readEvents(`${served.url}/v1/sessions/${id}/events`, headers)
        await until(() => reader.types().includes("turn_ended"))
        await reader.stop()
        assert.deepStrictEqual(reader.events.slice(0, events.length - 2), events.slice(2))
      })
    )
  )

  it.live("has no open question after another message", () =>
    Effect.flatMap(world(plays), (served) =>
      Effect.promise(async () => {
        const ask = askBy(served)
        const { id, questions } = await suspended(served, ask)
        const reader = readEvents(`${served.url}/v1/sessions/${id}/events`, served.authorized)
        await ask(`/v1/sessions/${id}/messages`, { prompt: "next" })
        await until(() => reader.types().filter((type) => type === "turn_ended").length === 2)
        await reader.stop()
        const late = await ask(`/v1/sessions/${id}/answers`, answer(questions[0].id))
        assert.deepStrictEqual(outcome(late), [410, "question_closed"])
        assert.isTrue(existsSync(join(served.cwd, "build")))
      })
    )
  )

  it.live("waits behind a restart of the server", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const scope = yield* Scope.make()
      const before = yield* Scope.provide(world(plays, {}, undefined, directory), scope)
      const { id, questions } = yield* Effect.promise(() => suspended(before, askBy(before)))
      yield* Scope.close(scope, Exit.void)
      const after = yield* world(plays, {}, undefined, directory)
      yield* Effect.promise(async () => {
        const ask = askBy(after)
        assert.deepStrictEqual((await ask(`/v1/sessions/${id}/questions`)).body.data, questions)
        const { body } = await ask(`/v1/sessions/${id}/answers`, { ...answer(questions[0].id), stream: true })
        assert.include(body, '"exit":"text_response","text":"Removed."')
        assert.isFalse(existsSync(join(after.cwd, "build")))
      })
    })
  )

  it.live("is a stored response that shows its questions, also behind a restart, until they are answered", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const scope = yield* Scope.make()
      const before = yield* Scope.provide(world(plays, {}, undefined, directory), scope)
      const read = async ({ client }: Served, id: string) => (await client.responses.retrieve(id)).output_text
      const { id, session, text } = yield* Effect.promise(async () => {
        mkdirSync(join(before.cwd, "build"), { recursive: true })
        const headers = { "x-hermes-questions": "suspend" }
        const input = { model: "hermes", input: "remove it" }
        const { data, response } = await before.client.responses.create(input, { headers }).withResponse()
        assert.strictEqual(await read(before, data.id), data.output_text)
        const session = response.headers.get("x-hermes-session-id") ?? ""
        return { id: data.id, session, text: data.output_text }
      })
      yield* Scope.close(scope, Exit.void)
      const after = yield* world(plays, {}, undefined, directory)
      yield* Effect.promise(async () => {
        assert.match(text, /^The run waits for answers:\n- recursive delete \(q_\w+\)$/u)
        assert.strictEqual(await read(after, id), text)
        const [, question = ""] = /\((q_\w+)\)/u.exec(text) ?? []
        await askBy(after)(`/v1/sessions/${session}/answers`, { ...answer(question), stream: true })
        assert.strictEqual(await read(after, id), "Removed.")
      })
    })
  )

  it.live("belongs to its key, which answers for one call and for no other audience", () =>
    Effect.gen(function* () {
      const keyOf = { owner: "0wner-key-of-this-test", alice: "al1ce-key-of-this-test" }
      const keys = { key: Redacted.make(keyOf.owner), keys: [{ name: "alice", key: Redacted.make(keyOf.alice) }] }
      const own = yield* world(plays, keys)
      const others = yield* world(plays, { ...keys, questions: { audience: "security" } })
      yield* Effect.promise(async () => {
        const alice = askBy(own, keyOf.alice)
        const { id, questions } = await suspended(own, alice, keyOf.alice)
        const path = `/v1/sessions/${id}/answers`
        assert.deepStrictEqual(questions[0].schema.properties.choice.enum, ["once", "deny"])
        assert.deepStrictEqual(outcome(await askBy(own, keyOf.owner)(path, answer(questions[0].id))), [
          404,
          "session_not_found"
        ])
        assert.deepStrictEqual(outcome(await alice(path, answer(questions[0].id, { choice: "always" }))), [
          403,
          "choice_unavailable"
        ])
        const { body } = await alice(path, { ...answer(questions[0].id), stream: true })
        assert.include(body, '"text":"Removed."')

        const hidden = await suspended(others, askBy(others, keyOf.alice), keyOf.alice)
        assert.deepStrictEqual(hidden.questions, [])
        assert.notInclude(hidden.reader.types(), "QuestionAsked")
        assert.notInclude(JSON.stringify(hidden.reader.events), "recursive delete")
        const owners = await suspended(others, askBy(others, keyOf.owner), keyOf.owner)
        assert.strictEqual(owners.questions[0].audience, "security")
      })
    })
  )

  it.live("is an answer with its questions for clients of other APIs", () =>
    Effect.flatMap(world(plays), ({ client, fetched }) =>
      Effect.promise(async () => {
        const headers = { "x-hermes-questions": "suspend" }
        const { data, response } = await client.chat.completions
          .create({ model: "hermes", messages: [user("remove it")] }, { headers })
          .withResponse()
        const [choice] = data.choices
        assert.strictEqual(choice?.finish_reason, "stop")
        assert.match(choice?.message.content ?? "", /^The run waits for answers:\n- recursive delete \(q_\w+\)$/u)
        const id = response.headers.get("x-hermes-session-id")
        const [, question = ""] = /\((q_\w+)\)/u.exec(choice?.message.content ?? "") ?? []
        const { body } = await fetched(`/v1/sessions/${id}/answers`, { json: { ...answer(question), stream: true } })
        assert.include(body, '"text":"Removed."')

        const streamed = await client.responses.create({ model: "hermes", input: "remove it" }, { headers })
        assert.strictEqual(streamed.status, "completed")
        assert.include(streamed.output_text, "The run waits for answers:")
        const form = await fetched("/v1/chat/completions", {
          headers,
          json: { messages: [user("remove it")], response_format: { type: "json_object" } }
        })
        assert.deepStrictEqual(outcome(form), [409, "run_suspended"])
        // A conversation that is not stored could not be continued.
        const transient = await fetched("/v1/responses", { headers, json: { input: "remove it", store: false } })
        assert.notInclude(JSON.stringify(transient.body), "waits for answers")
        const refused = await fetched("/v1/chat/completions", {
          headers: { "x-hermes-questions": "later" },
          json: { messages: [user("remove it")] }
        })
        assert.deepStrictEqual(outcome(refused), [400, "unsupported_parameter"])
      })
    )
  )
})
