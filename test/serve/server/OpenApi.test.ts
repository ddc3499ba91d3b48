// `/openapi.json` held against what the server answers: each operation, its statuses, the media types, and bodies by
// their schemas.
import { Ajv2020 } from "ajv/dist/2020.js"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readEvents, until, user, world } from "../../support/servedAgent.ts"

interface Operation {
  readonly security?: ReadonlyArray<object>
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>
  >
}

interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly securitySchemes: object }
  readonly security: ReadonlyArray<object>
}

describe("the description of the server", () => {
  it.live("is what its routes answer, where they succeed and where they fail", () =>
    Effect.gen(function* () {
      const { authorized, url } = yield* world({
        "Say hello": [{ text: "Hello." }],
        "remove it": [{ calls: [["terminal", { command: "rm -rf ../elsewhere" }]] }, { text: "Removed." }]
      })
      yield* Effect.promise(async () => {
        // The document is checked by what follows.
        const described = (await (await fetch(`${url}/openapi.json`, { headers: authorized })).json()) as Description
        assert.deepStrictEqual(described.components.securitySchemes, { key: { type: "http", scheme: "bearer" } })
        assert.deepStrictEqual(described.security, [{ key: [] }])
        const withoutKey = Object.entries(described.paths).filter(([, { get }]) => get?.security?.length === 0)
        assert.deepStrictEqual(
          withoutKey.map(([path]) => path),
          ["/health"]
        )
        const ajv = new Ajv2020({ strict: false, formats: { "date-time": true } })
        ajv.addSchema({ $id: "doc", components: described.components })
        const local = (schema: object): object =>
          JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"doc#/components'))
        const seen = new Set<string>()
        const problems: Array<string> = []
        const ending = new AbortController()

        /** Asks, and holds the answer against the description; gives its body. */
        const ask = async (
          method: string,
          template: string,
          params: Readonly<Record<string, string>>,
          status: number,
          json?: unknown
        ) => {
          const path = template.replaceAll(/\{(\w+)\}/gu, (_, name: string) => params[name] ?? "")
          const response = await fetch(`${url}${path}`, {
            method,
            signal: ending.signal,
            headers: { ...authorized, ...(json === undefined ? {} : { "content-type": "application/json" }) },
            ...(json === undefined ? {} : { body: typeof json === "string" ? json : JSON.stringify(json) })
          })
          const at = `${method} ${template} ${response.status}`
          seen.add(`${method.toLowerCase()} ${template}`)
          if (response.status !== status) problems.push(`${at}: expected ${status}`)
          const answer = described.paths[template]?.[method.toLowerCase()]?.responses[response.status]
          if (answer === undefined) problems.push(`${at}: the status is not described`)
          const type = (response.headers.get("content-type") ?? "").split(";")[0] ?? ""
          const isStream = type === "text/event-stream"
          const text = isStream && template.endsWith("/events") ? "" : await response.text()
          const media = answer?.content?.[type]
          if (answer?.content === undefined) {
            if (text !== "") problems.push(`${at}: a body is not described`)
          } else if (media === undefined)
            problems.push(`${at}: ${type} is not described, ${Object.keys(answer.content).join()} is`)
          else if (type === "application/json") {
            const validate = ajv.compile(local(media.schema))
            if (!validate(JSON.parse(text))) problems.push(`${at}: ${ajv.errorsText(validate.errors)}: ${text}`)
          }
          return type === "application/json" && text !== "" ? JSON.parse(text) : {}
        }

        const none = { id: "nobody", question: "nobody" }
        for (const path of ["/health", "/metrics", "/v1/models"]) await ask("GET", path, none, 200)
        await ask("GET", "/v1/models/{id}", { id: "hermes" }, 200)
        await ask("GET", "/v1/models/{id}", none, 404)
        for (const [path, said] of [
          ["/v1/chat/completions", { messages: [user("Say hello")] }],
          ["/v1/responses", { input: "Say hello" }],
          ["/v1/messages", { messages: [user("Say hello")], max_tokens: 100 }]
        ] as const) {
          await ask("POST", path, none, 200, said)
          await ask("POST", path, none, 200, { ...said, stream: true })
          await ask("POST", path, none, 400, "{")
          await ask("POST", path, none, 404, { ...said, model: "nobody" })
        }
        await ask("POST", "/v1/messages/count_tokens", none, 200, { messages: [user("Say hello")] })
        const response = await ask("POST", "/v1/responses", none, 200, { input: "Say hello" })
        await ask("GET", "/v1/responses/{id}", { id: response.id }, 200)
        await ask("GET", "/v1/responses/{id}/input_items", { id: response.id }, 200)
        await ask("DELETE", "/v1/responses/{id}", { id: response.id }, 200)
        await ask("GET", "/v1/responses/{id}", { id: response.id }, 404)
        const conversation = await ask("POST", "/v1/conversations", none, 200, {})
        const items = { items: [{ type: "message", role: "user", content: "x" }] }
        const added = await ask("POST", "/v1/conversations/{id}/items", { id: conversation.id }, 200, items)
        const place = { id: conversation.id, item: added.first_id }
        await ask("GET", "/v1/conversations/{id}/items", place, 200)
        await ask("GET", "/v1/conversations/{id}/items/{item}", place, 200)
        await ask("DELETE", "/v1/conversations/{id}/items/{item}", place, 400)
        await ask("GET", "/v1/conversations/{id}", place, 200)
        await ask("POST", "/v1/conversations/{id}", place, 400, { metadata: { a: "b" } })
        await ask("DELETE", "/v1/conversations/{id}", place, 200)
        await ask("GET", "/v1/conversations/{id}", place, 404)
        await ask("POST", "/v1/sessions", none, 400, { mode: "none" })
        const { id } = await ask("POST", "/v1/sessions", none, 201, { mode: "ask" })
        await ask("GET", "/v1/sessions/{id}/events", { id }, 200)
        await ask("GET", "/v1/sessions/{id}/events", none, 404)
        const reader = readEvents(`${url}/v1/sessions/${id}/events`, authorized)
        await ask("POST", "/v1/sessions/{id}/messages", { id }, 202, { prompt: "remove it" })
        await until(() => reader.types().includes("approval_asked"))
        const question = String(
          reader.events.find(({ data }) => data["type"] === "approval_asked")?.data["question_id"]
        )
        await ask("GET", "/v1/sessions/{id}", { id }, 200)
        await ask("POST", "/v1/sessions/{id}/messages", { id }, 202, { prompt: "Say hello", busy: "queue" })
        await ask("GET", "/v1/sessions/{id}", { id }, 200)
        await ask("POST", "/v1/sessions/{id}/questions/{question}", { id, question }, 400, { answers: [1] })
        await ask("POST", "/v1/sessions/{id}/questions/{question}", { id, question }, 204, { choice: "deny" })
        await ask("POST", "/v1/sessions/{id}/questions/{question}", { id, question: "nobody" }, 404, { choice: "deny" })
        await until(() => reader.types().filter((type) => type === "turn_ended").length === 2)
        await ask("POST", "/v1/sessions/{id}/stop", { id }, 200, {})
        const suspending = { questions: { unanswered: "suspend" } }
        await ask("POST", "/v1/sessions", none, 400, { questions: { unanswered: "later" } })
        const waiting = await ask("POST", "/v1/sessions", none, 201, suspending)
        const waits = readEvents(`${url}/v1/sessions/${waiting.id}/events`, authorized)
        await ask("POST", "/v1/sessions/{id}/messages", waiting, 202, { prompt: "remove it" })
        await until(() => waits.types().includes("turn_ended"))
        await waits.stop()
        const { data } = await ask("GET", "/v1/sessions/{id}/questions", waiting, 200)
        const answers = [{ question_id: data[0].id, answer: { choice: "deny" } }]
        await ask("POST", "/v1/sessions/{id}/answers", waiting, 400, { answers: [{}] })
        await ask("POST", "/v1/sessions/{id}/answers", waiting, 202, { answers })
        await ask("POST", "/v1/sessions/{id}/answers", waiting, 409, { answers })
        await ask("POST", "/v1/sessions/{id}/answers", waiting, 404, { answers: [{ question_id: "q", answer: 1 }] })
        await ask("PATCH", "/v1/sessions/{id}", { id }, 200, { mode: "plan" })
        await ask("PATCH", "/v1/sessions/{id}", { id }, 404, { model: "nobody" })
        await ask("GET", "/v1/sessions/{id}/messages", { id }, 200)
        await ask("GET", "/v1/sessions", none, 200)
        await ask("DELETE", "/v1/sessions/{id}", { id }, 204)
        for (const [method, path, json] of [
          ["GET", "", undefined],
          ["PATCH", "", {}],
          ["DELETE", "", undefined],
          ["GET", "/messages", undefined],
          ["POST", "/messages", { prompt: "x" }],
          ["GET", "/questions", undefined],
          ["POST", "/answers", { answers: [] }],
          ["POST", "/stop", {}]
        ] as const) {
          await ask(method, `/v1/sessions/{id}${path}`, none, 404, json)
        }
        ending.abort()
        await reader.stop()

        assert.deepStrictEqual(problems, [])
        const all = Object.entries(described.paths).flatMap(([path, operations]) =>
          Object.keys(operations).map((method) => `${method} ${path}`)
        )
        assert.sameMembers(Array.from(seen), all)
      })
    })
  )
})
