/**
 * The HTTP API of an agent: chat completions and responses in the OpenAI format, messages in Anthropic's format,
 * sessions with their events, and health checks.
 *
 * **Details**
 *
 * The OpenAI endpoints work with any OpenAI client: `model` is `hermes` or one of `/v1/models`. Calls of tools that the
 * caller defined are returned to the caller; the agent's own tools run on the server. Sampling parameters are accepted
 * but have no effect, because the agent uses its own. Unsupported fields are refused: see `OpenAiFields` and
 * `AnthropicFields`.
 * `/v1/sessions` adds live events, approvals, answers to suspended runs, and steering. The header
 * `x-hermes-session-id`, `previous_response_id`, or the messages of a request determine the session that the request
 * continues. `/openapi.json` describes all endpoints except `/mcp`, which uses another protocol: it offers the agent as
 * a tool over MCP.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Schema from "effect/Schema"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as PermissionMode from "../../../base/config/PermissionMode.ts"
import * as Question from "../../../base/domain/Question.ts"
import { planModes } from "../../host/HostEvent.ts"
import * as ApiError from "../ApiError.ts"
import * as AnthropicError from "../AnthropicError.ts"
import {
  ChatRequest,
  describeKeys,
  errors,
  EventStream,
  Fields,
  health,
  id,
  Model,
  ModelList
} from "../OpenAiShapes.ts"

/** Header that names a session, in requests and responses. */
export const sessionHeader = "x-hermes-session-id"

/** A request to the responses API. */
const ResponseRequest = Schema.StructWithRest(
  Schema.Struct({
    input: Schema.Union([Schema.String, Schema.Array(Fields)]),
    model: Schema.optionalKey(Schema.String),
    instructions: Schema.optionalKey(Schema.NullOr(Schema.String)),
    previous_response_id: Schema.optionalKey(Schema.NullOr(Schema.String)),
    stream: Schema.optionalKey(Schema.Boolean),
    tools: Schema.optionalKey(Schema.Array(Fields))
  }),
  [Fields]
)

/** A message for a session. */
export const NewMessage = Schema.Struct({
  prompt: Schema.NonEmptyString,
  /** Handling of the message while a turn is running. Defaults to `queue`. */
  busy: Schema.optionalKey(Schema.Literals(["queue", "steer", "interrupt"]))
})

/**
 * An answer to a question: the choice for an approval, the answers to a clarification, or the next mode for a plan
 * (`plan` continues planning).
 */
export const NewAnswer = Schema.Union([
  Schema.Struct({
    choice: Schema.Literals(["once", "session", "always", "deny"]),
    reason: Schema.optionalKey(Schema.String),
    prefix: Schema.optionalKey(Schema.Boolean)
  }),
  Schema.Struct({ answers: Schema.Array(Schema.String) }),
  Schema.Struct({ mode: Schema.Literals(["plan", ...planModes]), words: Schema.optionalKey(Schema.String) })
])

/** Treatment of questions without an answer during a turn; `wait` is in seconds. */
export const QuestionSettings = Schema.Struct({
  unanswered: Schema.Literals(["suspend", "deny"]),
  wait: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 86_400 })))
})

/** Header with which a request of another API sets `unanswered` of its session: `suspend` or `deny`. */
export const questionsHeader = "x-hermes-questions"

/** Answers to the stored questions of a suspended session. With `stream`, the response has the events of the turn. */
export const NewAnswers = Schema.Struct({
  answers: Schema.Array(
    Schema.Struct({ question_id: Schema.String, answer: Schema.Json, by: Schema.optionalKey(Schema.String) })
  ),
  stream: Schema.optionalKey(Schema.Boolean)
})

/** A question of a suspended run, with times in milliseconds since 1970. */
const QuestionView = Schema.Struct({
  id: Schema.String,
  session_id: Schema.String,
  kind: Question.Kind,
  title: Schema.String,
  schema: Fields,
  created_at: Schema.Number,
  call_id: Schema.optionalKey(Schema.String),
  tool: Schema.optionalKey(Schema.String),
  prompt: Schema.optionalKey(Schema.String),
  event: Schema.optionalKey(Schema.String),
  details: Schema.optionalKey(Schema.Json),
  expires_at: Schema.optionalKey(Schema.Number),
  wake_at: Schema.optionalKey(Schema.Number),
  audience: Schema.optionalKey(Schema.String)
})

/** Changes of a session's settings, which apply from the next turn. */
export const NewSettings = Schema.Struct({
  questions: Schema.optionalKey(QuestionSettings),
  mode: Schema.optionalKey(Schema.Literals(PermissionMode.all)),
  model: Schema.optionalKey(Schema.String)
})

/** Current state of a session. */
const SessionView = Schema.Struct({
  id: Schema.String,
  mode: Schema.Literals(PermissionMode.all),
  model: Schema.NullOr(Schema.String),
  turn: Schema.NullOr(Schema.Struct({ id: Schema.Int, message_id: Schema.String, started_at: Schema.Number })),
  queue: Schema.Array(Schema.Struct({ message_id: Schema.String, prompt: Schema.String })),
  questions: Schema.Array(Schema.String)
})

/** Result of stopping a session: whether a turn was running, and the messages that were not sent. */
const Stopped = Schema.Struct({
  stopped: Schema.Boolean,
  returned: Schema.Array(Schema.Struct({ message_id: Schema.String, prompt: Schema.String }))
})

const StoredView = Schema.Struct({
  id: Schema.String,
  title: Schema.NullOr(Schema.String),
  source: Schema.String,
  model: Schema.String,
  messages: Schema.Int,
  started_at: Schema.Number,
  ended_at: Schema.NullOr(Schema.Number)
})

/** Endpoints for models and chat completions. */
const openai = HttpApiGroup.make("openai").add(
  HttpApiEndpoint.get("models", "/v1/models", { success: ModelList, error: errors }),
  HttpApiEndpoint.get("model", "/v1/models/:id", { params: id, success: Model, error: errors }),
  HttpApiEndpoint.post("chat", "/v1/chat/completions", {
    payload: ChatRequest,
    success: [Fields, EventStream],
    error: errors
  })
)

const optionalText = Schema.optionalKey(Schema.String)

/** Query of a list of items. */
const itemPage = { after: optionalText, limit: optionalText, order: optionalText }

/** Endpoints for responses, which are parts of sessions. */
const responses = HttpApiGroup.make("responses").add(
  HttpApiEndpoint.post("respond", "/v1/responses", {
    payload: ResponseRequest,
    success: [Fields, EventStream],
    error: errors
  }),
  HttpApiEndpoint.get("response", "/v1/responses/:id", {
    params: id,
    query: { stream: optionalText },
    success: Fields,
    error: errors
  }),
  HttpApiEndpoint.delete("deleteResponse", "/v1/responses/:id", { params: id, success: Fields, error: errors }),
  HttpApiEndpoint.get("inputItems", "/v1/responses/:id/input_items", {
    params: id,
    query: itemPage,
    success: Fields,
    error: errors
  })
)

const conversationPath = "/v1/conversations/:id"
const itemPath = `${conversationPath}/items/:item` as const
const itemId = { ...id, item: Schema.String }

/** Endpoints for conversations, which are sessions. */
const conversations = HttpApiGroup.make("conversations").add(
  HttpApiEndpoint.post("createConversation", "/v1/conversations", { payload: Fields, success: Fields, error: errors }),
  HttpApiEndpoint.get("conversation", conversationPath, { params: id, success: Fields, error: errors }),
  HttpApiEndpoint.post("updateConversation", conversationPath, {
    params: id,
    payload: Fields,
    success: Fields,
    error: errors
  }),
  HttpApiEndpoint.delete("deleteConversation", conversationPath, { params: id, success: Fields, error: errors }),
  HttpApiEndpoint.get("items", `${conversationPath}/items`, {
    params: id,
    query: itemPage,
    success: Fields,
    error: errors
  }),
  HttpApiEndpoint.post("addItems", `${conversationPath}/items`, {
    params: id,
    payload: Fields,
    success: Fields,
    error: errors
  }),
  HttpApiEndpoint.get("item", itemPath, { params: itemId, success: Fields, error: errors }),
  HttpApiEndpoint.delete("deleteItem", itemPath, { params: itemId, success: Fields, error: errors })
)

/** A request to the messages API. */
const MessageRequest = Schema.StructWithRest(
  Schema.Struct({
    messages: Schema.Array(Fields),
    model: Schema.optionalKey(Schema.String),
    stream: Schema.optionalKey(Schema.Boolean),
    tools: Schema.optionalKey(Schema.Array(Fields))
  }),
  [Fields]
)

/** Endpoints for messages in the form of Anthropic's API. */
const anthropic = HttpApiGroup.make("anthropic").add(
  HttpApiEndpoint.post("messages", "/v1/messages", {
    payload: MessageRequest,
    success: [Fields, EventStream],
    error: AnthropicError.errors
  }),
  HttpApiEndpoint.post("countTokens", "/v1/messages/count_tokens", {
    payload: MessageRequest,
    success: Schema.Struct({ input_tokens: Schema.Int }),
    error: AnthropicError.errors
  })
)

/** Endpoints for sessions, their messages and their events. */
const sessions = HttpApiGroup.make("sessions").add(
  HttpApiEndpoint.get("list", "/v1/sessions", {
    query: { limit: Schema.optionalKey(Schema.String) },
    success: Schema.Struct({ data: Schema.Array(StoredView) }),
    error: errors
  }),
  HttpApiEndpoint.post("open", "/v1/sessions", {
    payload: NewSettings,
    success: SessionView.pipe(HttpApiSchema.status(201)),
    error: errors
  }),
  HttpApiEndpoint.get("view", "/v1/sessions/:id", { params: id, success: SessionView, error: errors }),
  HttpApiEndpoint.patch("change", "/v1/sessions/:id", {
    params: id,
    payload: NewSettings,
    success: SessionView,
    error: errors
  }),
  HttpApiEndpoint.delete("close", "/v1/sessions/:id", { params: id, success: HttpApiSchema.NoContent, error: errors }),
  HttpApiEndpoint.get("messages", "/v1/sessions/:id/messages", {
    params: id,
    success: Schema.Struct({ data: Schema.Array(Fields) }),
    error: errors
  }),
  HttpApiEndpoint.post("send", "/v1/sessions/:id/messages", {
    params: id,
    payload: NewMessage,
    success: Schema.Struct({
      status: Schema.Literals(["started", "queued", "steering"]),
      message_id: Schema.String
    }).pipe(HttpApiSchema.status(202)),
    error: errors
  }),
  HttpApiEndpoint.get("events", "/v1/sessions/:id/events", {
    params: id,
    query: { after: Schema.optionalKey(Schema.String) },
    success: EventStream,
    error: errors
  }),
  HttpApiEndpoint.post("answer", "/v1/sessions/:id/questions/:question", {
    params: { id: Schema.String, question: Schema.String },
    payload: NewAnswer,
    success: HttpApiSchema.NoContent,
    error: errors
  }),
  HttpApiEndpoint.get("questions", "/v1/sessions/:id/questions", {
    params: id,
    success: Schema.Struct({ data: Schema.Array(QuestionView) }),
    error: errors
  }),
  HttpApiEndpoint.post("answers", "/v1/sessions/:id/answers", {
    params: id,
    payload: NewAnswers,
    success: [
      Schema.Struct({ status: Schema.Literals(["started", "queued"]), message_id: Schema.String }).pipe(
        HttpApiSchema.status(202)
      ),
      EventStream
    ],
    error: [...errors, ApiError.ErrorBody.pipe(HttpApiSchema.status(410))]
  }),
  HttpApiEndpoint.post("stop", "/v1/sessions/:id/stop", { params: id, success: Stopped, error: errors })
)

/** Endpoints for health checks and metrics. */
const life = HttpApiGroup.make("life").add(
  health,
  HttpApiEndpoint.get("metrics", "/metrics", { success: Schema.String.pipe(HttpApiSchema.asText()), error: errors })
)

/** Definition of the whole API. */
export const api = HttpApi.make("hermes")
  .add(life, openai, responses, conversations, anthropic, sessions)
  .annotate(OpenApi.Transform, describeKeys)
