// Sessions over the wire, recorded for the simulated prompt caches: several turns with calls of tools, in several
// programs one after the other, with pauses between the turns.
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as BackgroundReview from "../../src/agent/BackgroundReview.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import * as Program from "./configuredProgram.ts"
import * as PromptCache from "./promptCache.ts"
import { protocols, type WireTurn } from "./wireModel.ts"

/** A kind of endpoint: its settings, and how its requests are cached. */
export interface Endpoint {
  readonly protocol: keyof typeof protocols
  /** The `model` section of the settings for the server at an address. */
  readonly model: (url: string) => object
  readonly path: RegExp
  readonly blocks: (body: string) => ReadonlyArray<PromptCache.Block>
  readonly price: PromptCache.Pricing
  /** What an earlier request wrote is found by this name, besides its beginning. */
  readonly key?: (body: string) => string
}

type EndpointName =
  | "anthropic"
  | "anthropic, thinking of one turn"
  | "bedrock"
  | "responses"
  | "chat"
  | "Claude behind a gateway"

const parse = (body: string) => JSON.parse(body)

const chat = (model: string, price: PromptCache.Pricing): Endpoint => ({
  protocol: "chat_completions",
  model: (url) => ({ provider: "custom", default: model, base_url: `${url}/v1` }),
  path: /\/chat\/completions$/u,
  blocks: (body) => PromptCache.chatBlocks(parse(body)),
  price
})

/** Endpoints that the sessions are played on. */
export const endpoints: Readonly<Record<EndpointName, Endpoint>> = {
  anthropic: {
    protocol: "anthropic_messages",
    model: (url) => ({ provider: "custom", default: "claude-opus-4-6", base_url: url, api_mode: "anthropic_messages" }),
    path: /\/v1\/messages$/u,
    blocks: (body) => PromptCache.anthropicBlocks(parse(body)),
    price: PromptCache.byMarks
  },
  "anthropic, thinking of one turn": {
    protocol: "anthropic_messages",
    model: (url) => ({
      provider: "custom",
      default: "claude-sonnet-4-5",
      base_url: url,
      api_mode: "anthropic_messages"
    }),
    path: /\/v1\/messages$/u,
    blocks: (body) => PromptCache.anthropicBlocks(PromptCache.withoutEarlierThinking(parse(body))),
    price: PromptCache.byMarks
  },
  bedrock: {
    protocol: "bedrock_converse",
    model: (url) => ({ provider: "bedrock", default: "us.anthropic.claude-opus-4-6-v1:0", base_url: url }),
    path: /\/converse(?:-stream)?$/u,
    blocks: (body) => PromptCache.bedrockBlocks(parse(body)),
    price: PromptCache.byMarks
  },
  responses: {
    protocol: "codex_responses",
    model: (url) => ({ provider: "custom", default: "gpt-5.1", base_url: `${url}/v1`, api_mode: "codex_responses" }),
    path: /\/responses$/u,
    blocks: (body) => {
      const { input, instructions, tools } = parse(body)
      return PromptCache.unmarkedBlocks([tools, instructions, ...input])
    },
    key: (body) => `${parse(body).prompt_cache_key}`,
    price: PromptCache.byBeginnings
  },
  chat: chat("gpt-test", PromptCache.byBeginnings),
  "Claude behind a gateway": chat("anthropic/claude-opus-4.6", PromptCache.byMarks)
}

/** A session: how many steps with calls each turn has, and how long the user pauses before the next. */
export interface Plan {
  readonly turns: ReadonlyArray<number>
  /** Programs that the turns are spread over. */
  readonly programs: number
  readonly pause?: "1 seconds" | "20 minutes"
  /** True if the model says something before its calls. */
  readonly talks?: boolean
  /** True if a plugin says something else before each turn. */
  readonly hasContext?: boolean
  /** True if the settings leave out the context window, so that the server is asked. */
  readonly asksWindow?: boolean
  /** Context window in the settings, in tokens. */
  readonly window?: number
  /** Words of each file that the model reads. */
  readonly words?: number
  /** Turns after which the memory is reviewed. There are no reviews without it. */
  readonly reviewTurns?: number
  /** Words of each answer, halved. */
  readonly answer?: number
  /** Number of requests for notes that the model answers with a call. */
  readonly callsInNotes?: number
  /** Text of each question. */
  readonly question?: string
  /** Lines of the settings for the server at an address. */
  readonly settings?: (url: string) => ReadonlyArray<string>
  /** Requests that the server refuses. */
  readonly refuses?: (body: string) => boolean
  /** Message of a refusal. */
  readonly refusal?: string
}

/** One request, in the order in which they were sent. */
export interface Recorded {
  /** Time in milliseconds. */
  readonly at: number
  /** Place among the requests of the conversation. */
  readonly after: number
  readonly body: string
}

const plugin = `export default {
  register(ctx) {
    ctx.registerHook("pre_llm_call", ({ user_message }) => ({ context: "it rains at " + user_message }))
  }
}
`

const file = (name: string, words: number): string => `# ${name}\n${`words of ${name}\n`.repeat(words / 3)}\n`

const isNote = (body: string): boolean => body.includes("handoff note of") || body.includes("write its handoff note")

const note: WireTurn = { text: `The user asked ${"and so on ".repeat(200)}` }

const readFile = (at: number) => ({ id: `call_${at}`, name: "read_file", args: JSON.stringify({ path: `f${at}.md` }) })

/** Plays a session and returns its requests. */
export const record = Effect.fnUntraced(function* (endpoint: Endpoint, plan: Plan) {
  const home = yield* Program.home
  const cwd = yield* Program.home
  const recorded: Array<Recorded> = []
  const side: Array<Recorded> = []
  const reviews: Array<Recorded> = []
  let now = 0
  let left = 0
  let refused = 0
  const others: Array<string> = []
  let served = 0
  const protocol = protocols[endpoint.protocol]
  const server = yield* HttpServer.make(({ body, url }, response) => {
    if (!endpoint.path.test(url)) {
      others.push(url)
      return HttpServer.json(response, 404, {})
    }
    if (plan.refuses?.(body) === true) {
      refused++
      return HttpServer.json(response, 400, {
        error: { message: plan.refusal ?? "messages.0.content must be a string" }
      })
    }
    if (isNote(body)) {
      side.push({ at: now, after: recorded.length - 0.5, body })
      const isCalling = side.length <= (plan.callsInNotes ?? 0)
      return HttpServer.json(response, 200, protocol.whole(isCalling ? { calls: [readFile(0)] } : note))
    }
    if (/This message is from the program|CONVERSATION:/u.test(body)) {
      reviews.push({ at: now, after: recorded.length - 0.5, body })
      return HttpServer.json(response, 200, protocol.whole({ text: "Nothing to save." }))
    }
    recorded.push({ at: now, after: recorded.length, body })
    const at = served++
    const turn: WireTurn =
      left-- > 0
        ? {
            thought: `thought ${at} ${"because ".repeat(60)}`,
            ...(plan.talks === true ? { text: `I look at ${at}.` } : {}),
            calls: [readFile(at)]
          }
        : {
            thought: `last thought ${at} ${"so ".repeat(60)}`,
            text: `answer ${at} ${"is it ".repeat(plan.answer ?? 60)}`
          }
    writeFileSync(join(cwd, `f${at}.md`), file(`f${at}`, plan.words ?? 360))
    protocol.stream(turn, response)
  })
  if (plan.hasContext === true) {
    yield* Effect.sync(() => {
      Program.keep(join(home, "plugins/weather/plugin.yaml"), "name: weather\n")
      Program.keep(join(home, "plugins/weather/index.mjs"), plugin)
    })
  }
  const config = [
    `model: ${JSON.stringify({ ...endpoint.model(server.url), api_key: "k", ...(plan.asksWindow === true ? {} : { context_length: plan.window ?? 400_000 }) })}`,
    ...(plan.hasContext === true ? ["plugins: { enabled: [weather] }"] : []),
    ...(plan.settings?.(server.url) ?? []),
    "agent: { reasoning_effort: medium }",
    `memory: { nudge_interval: ${plan.reviewTurns ?? 0} }`,
    "skills: { creation_nudge_interval: 0 }"
  ].join("\n")
  const each = Math.ceil(plan.turns.length / plan.programs)
  for (let first = 0; first < plan.turns.length; first += each) {
    yield* Effect.gen(function* () {
      for (const [index, steps] of plan.turns.slice(first, first + each).entries()) {
        left = steps
        yield* Agent.run({
          prompt: `question ${first + index} ${plan.question ?? "please ".repeat(20)}`,
          sessionId: "long",
          cwd,
          streaming: true
        })
        yield* Effect.flatMap(BackgroundReview.BackgroundReviews, ({ settled }) => settled(SessionId.make("long")))
        yield* TestClock.adjust(plan.pause ?? "1 seconds")
        now += plan.pause === "20 minutes" ? 1_200_000 : 1_000
      }
    }).pipe(Effect.provide(Program.layer({ home, config, env: { AWS_REGION: "us-east-1" } })))
  }
  /** A program that goes on with the session, with changed settings. */
  const again = (change: (config: string) => string) =>
    Program.layer({ home, config: change(config), env: { AWS_REGION: "us-east-1" } })
  return { requests: recorded, reviews, side, refused, others, again }
})

const inOrder = (endpoint: Endpoint, requests: ReadonlyArray<Recorded>) =>
  requests
    .toSorted((a, b) => a.after - b.after)
    .map(({ at, body }) => ({
      at,
      key: endpoint.key?.(body) ?? "",
      isLong: body.includes('"prompt_cache_retention":"24h"'),
      blocks: endpoint.blocks(body)
    }))

/** Cost of a session with its side work, against its cost without. */
export const weighSideWork = (
  endpoint: Endpoint,
  requests: ReadonlyArray<Recorded>,
  side: ReadonlyArray<Recorded>
): number =>
  endpoint.price.pay(inOrder(endpoint, [...requests, ...side])) / endpoint.price.pay(inOrder(endpoint, requests))

/** What a session cost, against the least that it can cost, and where its beginning changed. */
export const judge = (endpoint: Endpoint, recorded: ReadonlyArray<Recorded>) => {
  const requests = inOrder(endpoint, recorded)
  return {
    requests: requests.length,
    breaks: PromptCache.findBreaks(requests.map(({ blocks }) => blocks)),
    ratio: endpoint.price.pay(requests) / endpoint.price.least(requests)
  }
}
