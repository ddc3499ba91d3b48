/**
 * Handles requests of a server to the user during a call, asked field by field with the choices that the server offers.
 *
 * **Details**
 *
 * The question names the server, and the user can decline before answering any field. If no user is present, the
 * request becomes a question of the call (`Ask`), which suspends the run if its policy permits; after the answer,
 * which may be `decline`, the call is made again from its beginning. A call that cannot wait declines. If the user
 * does not answer, the request is cancelled. After an invalid answer, the question is repeated, at most
 * {@link maxTries} times in total. An optional field, or a field with a default, offers a choice for leaving it unchanged.
 *
 * Hidden characters are marked. An address is shown in full; a request with an address too long for that is declined.
 *
 * Source: `hermes-product.md` §2.4 (elicitation).
 */
import * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Json from "../../base/domain/Json.ts"
import * as VisibleText from "../../base/domain/VisibleText.ts"
import * as QuestionAnswer from "../../base/domain/QuestionAnswer.ts"
import { mostOfCommand } from "../approval/ShownText.ts"
import * as AskUser from "../Ask.ts"
import { type Ask, Clarifier } from "../builtin/Clarifier.ts"
import { CurrentTenant } from "../../store/TenantScope.ts"
import { SideModel } from "../builtin/SideModel.ts"
import { ToolContext } from "../ToolContext.ts"
import { McpError, toOneLine } from "./McpConnection.ts"
import type { ServerConfig } from "./ServerConfig.ts"

/**
 * Answers requests that a server makes during a call, on behalf of that call: requests to the user (`Elicitation`) or
 * to a model (`Sampling`). If the server may run several calls at the same time, requests belong to the newest call.
 * Requests are refused while calls for different tenants are running.
 */
export interface Questions {
  readonly elicit: (request: Request, signal: AbortSignal) => Promise<Answer>
  readonly sample: (request: SamplingRequest, signal: AbortSignal) => Promise<string>
  /** Routes requests that arrive during a call to the user of that call. */
  readonly during: <A, E>(call: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

/** Creates the request handler of one connection. */
export const make = ({ name }: Pick<ServerConfig, "name">): Questions => {
  const calls: Array<{ readonly services: Context.Context<never>; readonly ending: AbortController }> = []
  const runForCall = <A, E>(signal: AbortSignal, work: Effect.Effect<A, E>): Promise<A> => {
    const call = calls.at(-1)
    if (call === undefined) return Promise.reject(new Error("nothing was called, so nothing can be asked"))
    // The user and the allowance of one tenant are not used for the call of another.
    const tenants = new Set(calls.map(({ services }) => Context.get(services, CurrentTenant)))
    return tenants.size > 1
      ? Promise.reject(new Error("calls for several tenants are running: ask again when one of them has ended"))
      : Effect.runPromiseWith(call.services)(work, { signal: AbortSignal.any([signal, call.ending.signal]) })
  }
  return {
    elicit: (request, signal) => runForCall(signal, answerElicitation(name, request)),
    sample: (request, signal) => runForCall(signal, answerSampling(name, request)),
    during: (call) =>
      Effect.flatMap(Effect.context<never>(), (services) =>
        Effect.suspend(() => {
          const entry = { services, ending: new AbortController() }
          calls.push(entry)
          return Effect.ensuring(
            call,
            Effect.sync(() => {
              calls.splice(calls.indexOf(entry), 1)
              // A request whose call waits for an answer in another run is not answered in this one.
              entry.ending.abort()
            })
          )
        })
      )
  }
}

// Handles requests of a server to a model during a call. The model of the side task (`auxiliary.mcp`) answers, and only
// for servers whose configuration allows it, because it costs the user money. It is the model of side tasks that
// answers (`auxiliary.mcp`), and only for servers whose configuration allows it: it costs the user's money.
//
// Source: `hermes-product.md` §2.4 (sampling), `hermes-llm.md` §5.

/** The examined fields of a server's request. */
interface SamplingRequest {
  readonly messages: ReadonlyArray<{ readonly role: "user" | "assistant"; readonly content: unknown }>
  readonly systemPrompt?: string | undefined
}

const renderBlock = (block: unknown): string => {
  if (!Predicate.isObject(block)) return ""
  const { text, type }: { readonly text?: unknown; readonly type?: unknown } = block
  return typeof text === "string" ? text : `[${String(type)}, not shown]`
}

const renderContent = (content: unknown): string =>
  Array.isArray(content) ? content.map(renderBlock).join("\n") : renderBlock(content)

/** Returns the conversation for the model. */
const toMessages = ({ messages, systemPrompt }: SamplingRequest): ReadonlyArray<Prompt.Message> => [
  ...(systemPrompt === undefined || systemPrompt === "" ? [] : [Prompt.systemMessage({ content: systemPrompt })]),
  ...messages.map(({ content, role }) => {
    const parts = [Prompt.textPart({ text: renderContent(content) })]
    return role === "user" ? Prompt.userMessage({ content: parts }) : Prompt.assistantMessage({ content: parts })
  })
]

/** Returns the model's answer to a request. */
const answerSampling = Effect.fnUntraced(function* (
  server: string,
  request: SamplingRequest
): Effect.fn.Return<string, McpError> {
  const ask = yield* SideModel
  const call = yield* Effect.serviceOption(ToolContext)
  if (ask === undefined || Option.isNone(call)) {
    return yield* new McpError({ server, reason: "refused", message: "there is no model here for what servers ask" })
  }
  return yield* Effect.mapError(
    ask("mcp", toMessages(request), call.value),
    ({ message }) => new McpError({ server, reason: "refused", message })
  )
})

/** The examined fields of a server's request. */
interface Request {
  readonly message: string
  /** The requested fields, as a JSON schema of an object. */
  readonly requestedSchema?: unknown
  /** Address to which the user is sent instead of answering. */
  readonly url?: string | undefined
}

/** A value of a field. */
type Value = string | number | boolean | Array<string>

/** Answer for the server. */
interface Answer {
  readonly action: "accept" | "decline" | "cancel"
  readonly content?: Record<string, Value>
}

/** Maximum number of times that one field is asked for. */
const maxTries = 3

const declined: Answer = { action: "decline" }
const cancelled: Answer = { action: "cancel" }
const decline = "Decline"

type Fields = Readonly<Record<string, unknown>>

const readTexts = (value: unknown): ReadonlyArray<string> =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : []

/** Formats text of a server: its beginning as one line, with a mark for every hidden character. */
const showProse = (text: string): string => VisibleText.showLine(toOneLine(text))
const readProse = (value: unknown): string => (typeof value === "string" ? showProse(value) : "")

/** A field and the function that parses its answer; `undefined` for an invalid answer. */
interface Field {
  readonly name: string
  readonly question: string
  readonly choices: ReadonlyArray<string>
  readonly multiple: boolean
  /** The choice for leaving the field unchanged, and its value; `undefined` if an answer is required. */
  readonly asIs: { readonly shown: string; readonly value: Value | undefined } | undefined
  readonly read: (answer: ReadonlyArray<string>) => Value | undefined
}

/** Reads the choices of a schema as shown texts and their values. */
const readOptions = (schema: Fields): ReadonlyArray<readonly [shown: string, value: string]> => {
  const titled = [schema["oneOf"], schema["anyOf"]].find(Array.isArray)
  if (titled !== undefined) {
    return titled.flatMap((option) =>
      Json.isFields(option) && typeof option["const"] === "string"
        ? [[readProse(option["title"]) || VisibleText.showLine(option["const"]), option["const"]] as const]
        : []
    )
  }
  const names = readTexts(schema["enumNames"])
  return readTexts(schema["enum"]).map((value, index) => [VisibleText.showLine(names[index] ?? value), value])
}

const makeReader = (schema: Fields, options: ReturnType<typeof readOptions>): Field["read"] => {
  const findChosen = (answer: string): string | undefined =>
    options.find(([shown, value]) => shown === answer || value === answer)?.[1]
  switch (schema["type"]) {
    case "boolean":
      return ([answer = ""]) =>
        /^(y|yes|true)$/i.test(answer) ? true : /^(n|no|false)$/i.test(answer) ? false : undefined
    case "integer":
    case "number":
      return ([answer = ""]) => {
        const value = Number(answer)
        return answer.trim() === "" ||
          !Number.isFinite(value) ||
          (schema["type"] === "integer" && !Number.isInteger(value))
          ? undefined
          : value
      }
    case "array":
      return (answer) => {
        const values = answer.map(findChosen)
        return values.every((value) => value !== undefined) ? values : undefined
      }
    default:
      return ([answer = ""]) => (options.length > 0 ? findChosen(answer) : answer === "" ? undefined : answer)
  }
}

/** Reads the default of a field, if it is a valid value. */
const readDefault = (field: Fields, options: ReturnType<typeof readOptions>): Field["asIs"] => {
  const value = field["default"]
  if (value === undefined || value === "") return undefined
  const answer = Array.isArray(value) ? readTexts(value) : typeof value === "object" ? [] : [String(value)]
  const read = makeReader(field, options)(answer)
  if (read === undefined) return undefined
  const shown = answer.map((one) => options.find(([, known]) => known === one)?.[0] ?? one).join(", ")
  return { shown: `Use the default: ${showProse(shown)}`, value: read }
}

const readFields = (schema: unknown): ReadonlyArray<Field> => {
  const properties = Json.isFields(schema) && Json.isFields(schema["properties"]) ? schema["properties"] : {}
  const required = new Set(Json.isFields(schema) ? readTexts(schema["required"]) : [])
  return Object.entries(properties).flatMap(([name, field]): ReadonlyArray<Field> => {
    if (!Json.isFields(field)) return []
    const inner = field["type"] === "array" && Json.isFields(field["items"]) ? field["items"] : field
    const options = readOptions(inner)
    const title = readProse(field["title"]) || VisibleText.showLine(name)
    const description = readProse(field["description"])
    const asIs =
      readDefault(field, options) ?? (required.has(name) ? undefined : { shown: "Leave it empty", value: undefined })
    const choices = field["type"] === "boolean" ? ["yes", "no"] : options.map(([shown]) => shown)
    return [
      {
        name,
        question: `${title}${description === "" ? "" : `: ${description}`}`,
        choices: asIs === undefined ? choices : [...choices, asIs.shown],
        multiple: field["type"] === "array",
        asIs,
        read: makeReader(field, options)
      }
    ]
  })
}

/** Asks for the value of a field, which may be absent. Returns `undefined` without a valid answer. */
const promptForValue = Effect.fnUntraced(function* (ask: Ask, { asIs, choices, multiple, question, read }: Field) {
  for (let tries = 0; tries < maxTries; tries++) {
    const answer = yield* ask({
      question: tries === 0 ? question : `That does not fit. ${question}`,
      choices,
      multiple
    })
    if (answer === undefined) return undefined
    if (asIs !== undefined && answer.every((part) => part.trim() === "" || part === asIs.shown))
      return { value: asIs.value }
    const value = read(answer)
    if (value !== undefined) return { value }
  }
  return undefined
})

/** Longest JSON Schema of a form that becomes a question, in characters. */
const longestSchema = 20_000

/** Returns a schema of a field without regular expressions, by which a server could block the process. */
const withoutPatterns = ({ pattern: _, patternProperties: __, ...schema }: Fields): Fields =>
  Object.fromEntries(
    Object.entries(schema).map(([name, value]) => {
      if (name === "items") return [name, withoutPatterns(Json.readFields(value))]
      const isUnion = name === "anyOf" || name === "oneOf"
      return [name, isUnion ? Json.readItems(value).map((one) => withoutPatterns(Json.readFields(one))) : value]
    })
  )

/**
 * Returns the schema of a form with marks for hidden characters in its texts. Names and values stay as they are.
 * Everything that no form of the protocol has is left out.
 */
const showSchema = (schema: Fields): Fields => ({
  type: "object",
  properties: Object.fromEntries(
    Object.entries(Json.readFields(schema["properties"])).map(([name, field]) => {
      const { description, title, ...rest } = withoutPatterns(Json.readFields(field))
      return [
        name,
        {
          ...rest,
          ...(title === undefined ? {} : { title: readProse(title) }),
          ...(description === undefined ? {} : { description: readProse(description) })
        }
      ]
    })
  ),
  required: readTexts(schema["required"])
})

/** Returns true for a schema by which answers can be checked. */
const isUsable = (schema: Fields): Effect.Effect<boolean> =>
  Effect.map(
    Effect.promise(() => import("../../base/domain/JsonSchemaFormat.ts")),
    ({ readJsonSchema }) => Result.isSuccess(readJsonSchema(schema))
  )

/** Value of a field of the protocol. */
const isValue = (value: unknown): value is Value =>
  ["boolean", "number", "string"].includes(typeof value) ||
  (Array.isArray(value) && value.every((item) => typeof item === "string"))

const decodeContent =
  (schema: Fields) =>
  (json: unknown): Effect.Effect<Answer, string> =>
    Effect.map(QuestionAnswer.decodeAnswer(schema, json), () =>
      json === QuestionAnswer.declined
        ? declined
        : {
            action: "accept",
            content: Object.fromEntries(
              Object.entries(Json.readFields(json)).flatMap(([name, value]) => (isValue(value) ? [[name, value]] : []))
            )
          }
    )

/** Asks a question of the call, which may suspend the run. */
const askLater = Effect.fnUntraced(function* (
  server: string,
  { message, requestedSchema, url }: Request
): Effect.fn.Return<Answer> {
  if (url !== undefined) {
    const prompt = `${showProse(message)}\n${VisibleText.showLine(url)}`
    const title = `The MCP server "${server}" asks you to open an address`
    const { isApproved } = yield* AskUser.approval({ title, prompt })
    return isApproved ? { action: "accept" } : declined
  }
  const requested = Json.readFields(requestedSchema)
  if (JSON.stringify(requested).length > longestSchema) return declined
  const form = showSchema(requested)
  if (!(yield* isUsable(form))) return declined
  const schema = QuestionAnswer.addDeclined(form)
  const title = `The MCP server "${server}" asks: ${showProse(message)}`
  const prompt = `Answer ${QuestionAnswer.declined} to decline.`
  return yield* Effect.catch(AskUser.form({ schema, decode: decodeContent(schema) }, { title, prompt }), ({ reason }) =>
    Effect.succeed(reason === "unavailable" ? declined : cancelled)
  )
})

/** Asks the user; declines if no user can be asked. */
const answerElicitation = Effect.fnUntraced(function* (
  server: string,
  { message, requestedSchema, url }: Request
): Effect.fn.Return<Answer> {
  const ask = yield* Clarifier
  // An address that cannot be shown completely must not be opened.
  if (url !== undefined && url.length > mostOfCommand) return declined
  if (ask === undefined) return yield* askLater(server, { message, requestedSchema, url })
  const open = url === undefined ? "Answer" : "I have been there"
  const where = url === undefined ? "" : ` It wants you to open ${VisibleText.showLine(url)}`
  const first = yield* ask({
    question: `The MCP server "${server}" asks: ${showProse(message)}${where}`,
    choices: [open, decline],
    multiple: false
  })
  if (first === undefined) return cancelled
  if (first[0] !== open) return declined
  const content: Record<string, Value> = {}
  for (const field of url === undefined ? readFields(requestedSchema) : []) {
    const found = yield* promptForValue(ask, field)
    if (found === undefined) return cancelled
    if (found.value !== undefined) content[field.name] = found.value
  }
  return url === undefined ? { action: "accept", content } : { action: "accept" }
})
