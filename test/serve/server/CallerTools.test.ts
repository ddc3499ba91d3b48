// Tools of the caller over streams of the official client, in both APIs: calls in pieces, results in any order, twice,
// half of them, of nobody.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import OpenAI, { APIError } from "openai"
import { user, weather, world } from "../../support/servedAgent.ts"

interface Call {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** An answer that was put together of its pieces. */
interface Answer {
  readonly text: string
  readonly finish: string
  readonly calls: ReadonlyArray<Call>
  /** Continues behind it: with results, or with words of the user. */
  readonly results: (results: ReadonlyArray<readonly [id: string, output: string]>) => Promise<Answer>
  readonly say: (text: string) => Promise<Answer>
}

type Ask = (client: OpenAI, prompt: string) => Promise<Answer>

const chat: Ask = (client, prompt) => {
  const ask = async (messages: ReadonlyArray<OpenAI.ChatCompletionMessageParam>): Promise<Answer> => {
    const stream = await client.chat.completions.create({
      model: "hermes",
      messages: [...messages],
      tools: [weather],
      stream: true
    })
    const calls: Array<{ id: string; name: string; arguments: string }> = []
    let text = ""
    let finish = ""
    for await (const {
      choices: [choice]
    } of stream) {
      text += choice?.delta.content ?? ""
      finish = choice?.finish_reason ?? finish
      for (const { function: part, id, index } of choice?.delta.tool_calls ?? []) {
        const call = (calls[index] ??= { id: "", name: "", arguments: "" })
        call.id += id ?? ""
        call.name += part?.name ?? ""
        call.arguments += part?.arguments ?? ""
      }
    }
    const said: OpenAI.ChatCompletionMessageParam = {
      role: "assistant",
      content: text,
      ...(calls.length === 0
        ? {}
        : { tool_calls: calls.map(({ id, ...made }) => ({ id, type: "function" as const, function: made })) })
    }
    return {
      text,
      finish,
      calls,
      results: (results) =>
        ask([
          ...messages,
          said,
          ...results.map(([id, content]) => ({ role: "tool" as const, tool_call_id: id, content }))
        ]),
      say: (words) => ask([...messages, said, user(words)])
    }
  }
  return ask([user(prompt)])
}

const responses: Ask = (client, prompt) => {
  const ask = async (input: OpenAI.Responses.ResponseInput, previous?: string): Promise<Answer> => {
    const tool = { type: "function" as const, name: "weather", strict: false, parameters: weather.function.parameters }
    const stream = await client.responses.create({
      model: "hermes",
      input,
      tools: [tool],
      stream: true,
      previous_response_id: previous ?? null
    })
    const pieces = new Map<number, string>()
    const calls: Array<Call> = []
    let text = ""
    let finish = ""
    let id = ""
    for await (const event of stream) {
      if (event.type === "response.output_text.delta") text += event.delta
      if (event.type === "response.function_call_arguments.delta")
        pieces.set(event.output_index, (pieces.get(event.output_index) ?? "") + event.delta)
      if (event.type === "response.output_item.done" && event.item.type === "function_call") {
        assert.strictEqual(pieces.get(event.output_index), event.item.arguments)
        calls.push({ id: event.item.call_id, name: event.item.name, arguments: event.item.arguments })
      }
      if (event.type === "response.completed") {
        id = event.response.id
        const whole = event.response.output.flatMap((item) => (item.type === "function_call" ? [item.call_id] : []))
        assert.deepStrictEqual(
          whole,
          calls.map((call) => call.id)
        )
        finish = calls.length === 0 ? "stop" : "tool_calls"
      }
    }
    return {
      text,
      finish,
      calls,
      results: (results) =>
        ask(
          results.map(([call_id, output]) => ({ type: "function_call_output", call_id, output })),
          id
        ),
      say: (words) => ask([{ role: "user", content: words }], id)
    }
  }
  return ask([{ role: "user", content: prompt }])
}

const plays = {
  "one place": [{ calls: [["weather", { place: "Rome" }]] }, { text: "Warm." }],
  "two places": [
    {
      text: "I ask.",
      calls: [
        ["weather", { place: "Rome" }],
        ["weather", { place: 'Oslo "north"\n' }]
      ]
    },
    { text: "Warm and cold." }
  ],
  "one after the other": [
    { calls: [["weather", { place: "Rome" }]] },
    { calls: [["weather", { place: "Oslo" }]] },
    { text: "Both." }
  ],
  "Never mind": [{ text: "As you like." }]
} as const

type Seen = ReadonlyArray<{ readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }> }>

/** Results that the model was last told. */
const told = (seen: Seen): ReadonlyArray<unknown> =>
  (seen.at(-1)?.messages ?? []).filter(({ role }) => role === "tool").map(({ content }) => content)

/** The refusal of a request. */
const refused = async (answer: Promise<unknown>): Promise<readonly [status: number | undefined, code: unknown]> => {
  const error: unknown = await answer.then(
    () => undefined,
    (given: unknown) => given
  )
  if (!(error instanceof APIError)) throw new Error("no refusal")
  return [error.status, error.code]
}

describe.each([
  ["chat completions", chat],
  ["responses", responses]
] as const)("tools of a caller of streamed %s", (_, begin) => {
  const withServer = (use: (client: OpenAI, seen: Seen) => Promise<void>) =>
    Effect.flatMap(world(plays), ({ client, seen }) => Effect.promise(() => use(client, seen)))

  it.live("are called with their arguments, and get results that come in another order", () =>
    withServer(async (client, seen) => {
      const asked = await begin(client, "two places")
      assert.deepStrictEqual([asked.text, asked.finish], ["I ask.", "tool_calls"])
      assert.deepStrictEqual(
        asked.calls.map(({ arguments: args, name }) => [name, JSON.parse(args)]),
        [
          ["weather", { place: "Rome" }],
          ["weather", { place: 'Oslo "north"\n' }]
        ]
      )
      const [rome, oslo] = asked.calls.map(({ id }) => id)
      const done = await asked.results([
        [oslo ?? "", "-10"],
        [rome ?? "", "30"]
      ])
      assert.deepStrictEqual([done.text, done.finish, done.calls], ["Warm and cold.", "stop", []])
      assert.deepStrictEqual(told(seen), ["30", "-10"])
    })
  )

  it.live("are called again in the same turn", () =>
    withServer(async (client, seen) => {
      const first = await begin(client, "one after the other")
      const second = await first.results([[first.calls[0]?.id ?? "", "30"]])
      assert.deepStrictEqual(
        second.calls.map(({ arguments: args }) => JSON.parse(args)),
        [{ place: "Oslo" }]
      )
      assert.notStrictEqual(second.calls[0]?.id, first.calls[0]?.id)
      const done = await second.results([[second.calls[0]?.id ?? "", "-10"]])
      assert.deepStrictEqual([done.text, told(seen)], ["Both.", ["30", "-10"]])
    })
  )

  it.live("are asked again for the result that is missing, and for no other", () =>
    withServer(async (client, seen) => {
      const asked = await begin(client, "two places")
      const [rome, oslo] = asked.calls.map(({ id }) => id)
      const half = await asked.results([[oslo ?? "", "-10"]])
      assert.deepStrictEqual([half.finish, half.calls.map(({ id }) => id), half.text], ["tool_calls", [rome], ""])
      const done = await half.results([[rome ?? "", "30"]])
      assert.deepStrictEqual([done.text, told(seen)], ["Warm and cold.", ["30", "-10"]])
    })
  )

  it.live("get one result: of the same call twice the last, and none behind the end of the turn", () =>
    withServer(async (client, seen) => {
      const asked = await begin(client, "one place")
      const call = asked.calls[0]?.id ?? ""
      const done = await asked.results([
        [call, "20"],
        [call, "30"]
      ])
      assert.deepStrictEqual([done.text, told(seen)], ["Warm.", ["30"]])
      const requests = seen.length
      assert.deepStrictEqual(await refused(asked.results([[call, "40"]])), [400, "unknown_tool_call"])
      assert.strictEqual(seen.length, requests)
      assert.strictEqual((await done.say("Never mind")).text, "As you like.")
    })
  )

  it.live("take no result of a call that nobody made, beside one of a call that waits neither", () =>
    withServer(async (client, seen) => {
      const asked = await begin(client, "one place")
      const call = asked.calls[0]?.id ?? ""
      assert.deepStrictEqual(await refused(asked.results([["call_nobody", "x"]])), [400, "unknown_tool_call"])
      assert.deepStrictEqual(
        await refused(
          asked.results([
            [call, "30"],
            ["call_nobody", "x"]
          ])
        ),
        [400, "unknown_tool_call"]
      )
      assert.strictEqual(seen.length, 1)
      const done = await asked.results([[call, "30"]])
      assert.deepStrictEqual([done.text, told(seen)], ["Warm.", ["30"]])
    })
  )

  it.live("are given up where the caller says something else: the model learns that there is no result", () =>
    withServer(async (client, seen) => {
      const asked = await begin(client, "one place")
      const done = await asked.say("Never mind")
      assert.strictEqual(done.text, "As you like.")
      assert.deepStrictEqual(
        seen.at(-1)?.messages.map(({ role }) => role),
        ["system", "user", "assistant", "tool", "assistant", "user"]
      )
      assert.match(String(told(seen)[0]), /^Cancelled: |The client went on without a result/)
    })
  )
})

describe("the result of a tool of a caller", () => {
  it.live("is text in chat completions: an image in it is refused, not left out", () =>
    Effect.flatMap(world(plays), ({ fetched, seen }) =>
      Effect.promise(async () => {
        const url = "data:image/png;base64,iVBORw0KGgo="
        const { body, status } = await fetched("/v1/chat/completions", {
          json: {
            messages: [
              user("x"),
              { role: "tool", tool_call_id: "c", content: [{ type: "image_url", image_url: { url } }] }
            ]
          }
        })
        assert.deepStrictEqual(
          [status, body.error.code, body.error.message],
          [400, "invalid_request", "The result of a tool is text. Send an image in a message of the user."]
        )
        assert.lengthOf(seen, 0)
      })
    )
  )
})
