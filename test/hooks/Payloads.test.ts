import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import { inspect } from "node:util"
import * as ApiPayload from "../../src/hooks/ApiPayload.ts"
import * as Payloads from "../../src/hooks/Payloads.ts"
import * as EventPayload from "../../src/hooks/EventPayload.ts"
import * as Sanitizer from "../../src/hooks/Sanitizer.ts"
import { apiRequest, every, toolCall, toolDone, turn } from "./support/events.ts"

const made = (fields: object, maxChars = Sanitizer.defaultMaxChars): Record<string, unknown> =>
  EventPayload.make("pre_api_request", fields, maxChars) as Record<string, unknown>

const isFrozen = (value: unknown): boolean =>
  typeof value !== "object" || value === null || (Object.isFrozen(value) && Object.values(value).every(isFrozen))

describe("Payloads", () => {
  it("every hook has an event in these tests", () => {
    assert.sameMembers(Object.keys(every), [...Payloads.names])
  })

  it.effect.each(Object.entries(every))("what is sent for %s has exactly the fields of its Schema", ([name, fields]) =>
    Effect.gen(function* () {
      assert(Payloads.isHookName(name))
      const payload = JSON.parse(JSON.stringify(made(fields)))
      const decoded = yield* Schema.decodeUnknownEffect(Payloads.schemas[name])(payload, { onExcessProperty: "error" })
      assert.deepStrictEqual(JSON.parse(JSON.stringify(decoded)), payload)
      assert.strictEqual(payload.telemetry_schema_version, "hermes.observer.v1")
    })
  )

  it("a payload is frozen through and through, and shares nothing with what was handed in", () => {
    for (const fields of Object.values(every)) assert.isTrue(isFrozen(made(fields)))
    const args = { list: [1] }
    const payload = made({ ...toolCall, args })
    args.list.push(2)
    assert.deepStrictEqual(payload["args"], { list: [1] })
  })

  it("secrets are taken out of every field but the ids", () => {
    const key = "sk-abcdefghijklmnopqrstuvwx"
    const payload = made({
      ...toolDone,
      tool_call_id: key,
      result: `key ${key}`,
      args: { api_key: "short", note: key }
    })
    assert.strictEqual(payload["tool_call_id"], key)
    assert.notInclude(JSON.stringify(payload["result"]), key)
    assert.notInclude(JSON.stringify(payload["args"]), key)
    assert.deepInclude(payload["args"], { api_key: "<redacted>" })
  })

  it("only requests and responses are bounded", () => {
    const long = "x".repeat(20_000)
    const payload = made({ ...apiRequest, user_message: long, request: { method: "POST", body: { prompt: long } } })
    assert.strictEqual(payload["user_message"], long)
    assert.match(JSON.stringify(payload["request"]), /\.\.\.\[truncated 12000 chars\]/)
  })

  it("a legacy list is made when it is read, once, as it was at the time of the event", () => {
    let reads = 0
    const message = {
      role: "user",
      get content() {
        reads++
        return "hello"
      }
    }
    const history: Array<object> = [message]
    const payload = made({ ...turn, conversation_history: history })
    const later = made({ ...turn, conversation_history: history })
    history.push({ role: "assistant", content: "not yet said" })
    assert.strictEqual(reads, 0)
    assert.deepStrictEqual(payload["conversation_history"], [{ role: "user", content: "hello" }])
    assert.strictEqual(payload["conversation_history"], payload["conversation_history"])
    assert.isTrue(isFrozen(payload["conversation_history"]))
    assert.deepStrictEqual(later["conversation_history"], [{ role: "user", content: "hello" }])
    assert.strictEqual(reads, 1, "the copy of a message is shared by all events")
  })

  it("the size of a request is counted when it is read, once", () => {
    let counted = 0
    const payload = made({ ...apiRequest, request_char_count: () => 40 + counted++ })
    assert.strictEqual(counted, 0)
    assert.deepStrictEqual([payload["request_char_count"], payload["request_char_count"]], [40, 40])
  })

  it("a request is sanitised when it is read, once", () => {
    let reads = 0
    const payload = made({
      ...apiRequest,
      request: {
        get body() {
          reads++
          return "text"
        }
      }
    })
    assert.strictEqual(reads, 0)
    assert.strictEqual(payload["request"], payload["request"])
    assert.strictEqual(reads, 1)
  })

  it("whoever copies or shows a payload has its late fields, as they were at the event", () => {
    const long = "x".repeat(100)
    const request = { method: "POST", body: { prompt: long } }
    const payload = made({ ...apiRequest, user_message: long, request, usage: () => null })
    const whole = JSON.parse(JSON.stringify(payload))
    assert.deepInclude(whole, { user_message: long, request, usage: null })
    assert.deepStrictEqual(
      [{ ...payload }, structuredClone(payload), { ...Object.create(payload), ...payload }],
      [whole, whole, whole]
    )
    assert.strictEqual(Object.create(payload).user_message, long)
    assert.deepStrictEqual(inspect(payload, { depth: 9 }), inspect(whole, { depth: 9 }))
    assert.deepStrictEqual(Object.keys(payload), Object.keys(whole))
    assert.throws(() => Reflect.get(new Proxy(payload, {}), "request"), /read it from the payload itself/)
  })

  it("payloads have one shape: a late field has the same accessor in all of them", () => {
    const [one, two] = [made(apiRequest), made({ ...apiRequest, request: {} })].map((payload) =>
      Object.getOwnPropertyDescriptor(payload, "request")
    )
    assert.isFunction(one?.get)
    assert.strictEqual(one?.get, two?.get)
  })

  it("what is sanitised already is not sanitised again", () => {
    const request = Sanitizer.sanitize(apiRequest.request)
    assert.strictEqual(made({ ...apiRequest, request })["request"], request)
  })
})

describe("ApiPayload", () => {
  it("a request is its body without what only the transport needs", () => {
    assert.deepStrictEqual(ApiPayload.toRequestFields({ model: "m", timeout: 5, http_client: {}, stream: true }), {
      method: "POST",
      body: { model: "m", stream: true }
    })
  })

  it("an error is named by its reason, its class or its kind", () => {
    const reason = new AiError.InvalidRequestError({ description: "too long" })
    const error = AiError.make({ module: "test", method: "execute", reason })
    assert.deepStrictEqual(ApiPayload.toErrorFields(error), { type: "InvalidRequestError", message: reason.message })
    assert.deepStrictEqual(ApiPayload.toErrorFields(new RangeError("far")), { type: "RangeError", message: "far" })
    assert.deepStrictEqual(ApiPayload.toErrorFields({ code: 5 }), { type: "object", message: `{"code":5}` })
  })
})

describe("JSON Schemas", () => {
  it("there is one document per hook, and its required fields are those of the contract", () => {
    const documents = Payloads.names.map((name) => ({ name, schema: Payloads.makeJsonSchema(name) }))
    assert.deepStrictEqual(
      documents.map(({ name }) => name),
      [...Payloads.names]
    )
    for (const { name, schema } of documents) {
      assert.strictEqual(schema["title"], name)
      assert.strictEqual(schema["type"], "object")
      assert.sameMembers(schema["required"] as Array<string>, [
        "telemetry_schema_version",
        ...Object.keys(every[name]).filter((field) => !optional.has(`${name}.${field}`))
      ])
      JSON.stringify(schema)
    }
  })
})

const optional = new Set([
  "on_session_end.task_id",
  "on_session_end.turn_id",
  "on_session_finalize.reason",
  "on_session_reset.reason"
])
