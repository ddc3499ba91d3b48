/**
 * Logs in to ChatGPT. The models of a ChatGPT subscription require this login. The user enters a code in a browser, and
 * the login is renewed before it expires.
 *
 * **Details**
 *
 * {@link Service.login} requests a code, displays it, and polls at the given interval until the user has entered it.
 * {@link Service.token} returns the access token, which is renewed five minutes before it expires. Only one renewal
 * runs at a time, and it reads the store first, because a refresh token can be used only once and another process may
 * have used it.
 *
 * **Gotchas**
 *
 * OpenAI's command line program uses the same endpoints. They are not documented as an API, and this module was not
 * tested against the real service.
 *
 * **Example** (Logging in at a terminal)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import type { CodexLogin } from "hermes-effect/routing"
 *
 * export const logIn = (codex: CodexLogin.Service) =>
 *   codex.login(({ code, page }) => Effect.logInfo(`open ${page} and type ${code}`))
 * ```
 *
 * Source: `hermes-llm.md` §2.4, §5.2, §16.5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as AiError from "effect/ai/AiError"
import * as Base64Url from "effect/encoding/Base64Url"
import * as HttpBody from "effect/http/HttpBody"
import type * as HttpClient from "effect/http/HttpClient"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import * as TokenStore from "./TokenStore.ts"

/** The login failed or cannot be renewed. `message` contains the remedy. */
export class LoginError extends Schema.TaggedError<LoginError>("hermes-effect/routing/LoginError")("LoginError", {
  message: Schema.String
}) {}

/** Addresses of the login service, and the client id of this program. */
export interface Endpoints {
  /** Base URL of the login service; `undefined` for OpenAI's service. */
  readonly issuer: string | undefined
  readonly clientId: string
  /** URL that issues a code. */
  readonly code: string
  /** URL that reports whether the user has entered the code. */
  readonly poll: string
  /** URL that issues tokens. */
  readonly token: string
  /** URL of the page on which the user enters the code. */
  readonly page: string
  readonly redirect: string
}

const service = "https://auth.openai.com"

/**
 * Creates the endpoints for an address, which defaults to OpenAI's service. OpenAI's command line program uses the same
 * paths. They were not tested against the real service.
 */
export const makeEndpoints = (address = service): Endpoints => {
  const issuer = address.replace(/\/+$/, "")
  return {
    issuer: issuer === service ? undefined : issuer,
    clientId: "app_EMoamEEZ73f0CkXaXp7hrann",
    code: `${issuer}/api/accounts/deviceauth/usercode`,
    poll: `${issuer}/api/accounts/deviceauth/token`,
    token: `${issuer}/oauth/token`,
    page: `${issuer}/codex/device`,
    redirect: `${issuer}/deviceauth/callback`
  }
}

/** Endpoints of OpenAI's login service. */
export const openAi: Endpoints = makeEndpoints()

/** Reply of the service. The body is `undefined` if the reply has no body. */
export interface Reply {
  readonly status: number
  readonly body: unknown
}

/** Sends JSON or a form, and returns the reply regardless of its status. */
export interface Http {
  readonly json: (url: string, body: Readonly<Record<string, string>>) => Effect.Effect<Reply, LoginError>
  readonly form: (url: string, body: Readonly<Record<string, string>>) => Effect.Effect<Reply, LoginError>
}

/** Creates an {@link Http} that uses an HTTP client. */
export const fromHttpClient = (client: HttpClient.HttpClient): Http => {
  const sendRequest = (url: string, body: HttpBody.HttpBody): Effect.Effect<Reply, LoginError> =>
    client.post(url, { body, headers: { accept: "application/json" } }).pipe(
      Effect.flatMap((response) =>
        Effect.map(response.text, (text) => ({
          status: response.status,
          body: Option.getOrUndefined(Json.parse(text))
        }))
      ),
      Effect.timeout("30 seconds"),
      Effect.mapError(
        () =>
          new LoginError({
            message: `${URL.parse(url)?.host ?? url} cannot be reached: check the network, then ${again}`
          })
      )
    )
  return {
    json: (url, body) => sendRequest(url, HttpBody.jsonUnsafe(body)),
    form: (url, body) =>
      sendRequest(url, HttpBody.text(new URLSearchParams(body).toString(), "application/x-www-form-urlencoded"))
  }
}

/** Code and page for the user. */
export interface Invitation {
  readonly page: string
  readonly code: string
}

/** Service that logs in to ChatGPT and provides access tokens. */
export interface Service {
  /** Logs in. `show` displays the page and the code to enter there. */
  readonly login: (
    show: (invitation: Invitation) => Effect.Effect<void>
  ) => Effect.Effect<void, LoginError | ConfigError>
  readonly logout: Effect.Effect<void, ConfigError>
  /** Returns the access token, renewed if necessary, or `undefined` if the user is not logged in. */
  readonly token: Effect.Effect<Redacted.Redacted<string> | undefined, LoginError | ConfigError>
  /** Renews the token even if it has not expired, as a credential pool requires. */
  readonly refresh: Effect.Effect<Redacted.Redacted<string>, AiError.AiError>
}

/** Name of the provider to which the tokens belong. */
export const provider = TokenStore.codex

const again = "run `hermes model login`"
const early = 300_000
const deadline = "15 minutes"
const defaultLife = 3_600_000

const Code = Schema.Struct({
  device_auth_id: Schema.String,
  user_code: Schema.String,
  interval: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.String]))
})
const TypedCode = Schema.Struct({ authorization_code: Schema.String, code_verifier: Schema.String })
const GrantedTokens = Schema.Struct({
  access_token: Schema.String,
  refresh_token: Schema.optionalKey(Schema.String),
  expires_in: Schema.optionalKey(Schema.Finite)
})

/** Reads the expiry time contained in a token, in milliseconds since 1970. */
const readTokenExpiry = (token: string): number | undefined => {
  const payload = token.split(".")[1]
  const text = payload === undefined ? "" : Result.getOrElse(Base64Url.decodeString(payload), () => "")
  const claims = Option.getOrUndefined(Json.parse(text))
  const end = typeof claims === "object" && claims !== null && "exp" in claims ? claims.exp : undefined
  return typeof end === "number" ? end * 1_000 : undefined
}

const decodeReply = <A>(
  schema: Schema.Decoder<A>,
  { body, status }: Reply,
  what: string
): Effect.Effect<A, LoginError> =>
  status === 200
    ? Effect.mapError(
        Schema.decodeUnknownEffect(schema)(body),
        () =>
          new LoginError({
            message: `the answer to ${what} cannot be read because the login service has changed: update hermes`
          })
      )
    : Effect.fail(new LoginError({ message: `${what} was refused (HTTP ${status}): ${again}` }))

/** Dependencies of the login service. */
interface LoginParts extends Http {
  readonly store: TokenStore.Service
  readonly endpoints: Endpoints
  /** Tokens are renewed one at a time. */
  readonly renewing: Semaphore.Semaphore
}

const storeTokens = Effect.fnUntraced(function* (
  { endpoints, store }: LoginParts,
  reply: Reply,
  what: string,
  previous: TokenStore.Tokens | undefined
) {
  const { access_token, expires_in, refresh_token } = yield* decodeReply(GrantedTokens, reply, what)
  const refresh = refresh_token === undefined ? previous?.refresh : Redacted.make(refresh_token)
  if (refresh === undefined) return yield* new LoginError({ message: `${what} gave no refresh token: ${again}` })
  const now = yield* Clock.currentTimeMillis
  const life = expires_in === undefined ? defaultLife : expires_in * 1_000
  const { issuer } = previous ?? endpoints
  const tokens = {
    access: Redacted.make(access_token),
    refresh,
    expiresAt: readTokenExpiry(access_token) ?? now + life,
    ...(issuer === undefined ? {} : { issuer })
  }
  yield* store.set(provider, tokens)
  return tokens.access
})

const renewTokens = Effect.fnUntraced(function* (login: LoginParts, tokens: TokenStore.Tokens) {
  const { endpoints } = login
  // A refresh token is sent only to the service that issued it, even if the settings specify another service now.
  const { clientId, token } = tokens.issuer === endpoints.issuer ? endpoints : makeEndpoints(tokens.issuer)
  const reply = yield* login.form(token, {
    grant_type: "refresh_token",
    client_id: clientId,
    refresh_token: Redacted.value(tokens.refresh)
  })
  return yield* storeTokens(login, reply, "the renewal of the ChatGPT login", tokens)
})

/** Renews the tokens; a refusal is ignored if another process has used the refresh token in the meantime. */
const renewOrReadLatest = (login: LoginParts, tokens: TokenStore.Tokens) =>
  Effect.catchTag(renewTokens(login, tokens), "LoginError", (refusal) =>
    Effect.flatMap(login.store.get(provider), (latest) =>
      latest === undefined || Redacted.value(latest.refresh) === Redacted.value(tokens.refresh)
        ? Effect.fail(refusal)
        : Effect.succeed(latest.access)
    )
  )

/**
 * Returns the stored token if it is still valid, otherwise a new one. `spent` is a token that is known to be invalid.
 */
const getCurrentToken = (login: LoginParts, spent: string | undefined) =>
  login.renewing.withPermit(
    Effect.gen(function* () {
      const tokens = yield* login.store.get(provider)
      if (tokens === undefined) return undefined
      const now = yield* Clock.currentTimeMillis
      const isGood = tokens.expiresAt - early > now && Redacted.value(tokens.access) !== spent
      return isGood ? tokens.access : yield* Effect.uninterruptible(renewOrReadLatest(login, tokens))
    })
  )

const waitForUser = Effect.fnUntraced(function* (
  { json, endpoints }: LoginParts,
  { device_auth_id, interval, user_code }: typeof Code.Type
) {
  const pace = Math.max(1, Number(interval ?? 5) || 5)
  const reply = yield* Effect.suspend(() => json(endpoints.poll, { device_auth_id, user_code })).pipe(
    // Both statuses mean that the user has not entered the code yet.
    Effect.repeat({
      while: ({ status }) => status === 403 || status === 404,
      schedule: Schedule.spaced(`${pace} seconds`)
    }),
    Effect.delay(`${pace} seconds`)
  )
  return yield* decodeReply(TypedCode, reply, "the code")
})

/** Creates the login service. */
export const make = (
  store: TokenStore.Service,
  { form, json }: Http,
  endpoints: Endpoints = makeEndpoints()
): Service => {
  const login: LoginParts = { store, form, json, endpoints, renewing: Semaphore.makeUnsafe(1) }
  return {
    login: Effect.fn("CodexLogin.login")(function* (show) {
      const code = yield* decodeReply(
        Code,
        yield* json(endpoints.code, { client_id: endpoints.clientId }),
        "the request for a code"
      )
      yield* show({ page: endpoints.page, code: code.user_code })
      const { authorization_code, code_verifier } = yield* Effect.timeoutOrElse(waitForUser(login, code), {
        duration: deadline,
        orElse: () => Effect.fail(new LoginError({ message: `the code was not entered within 15 minutes: ${again}` }))
      })
      const reply = yield* form(endpoints.token, {
        grant_type: "authorization_code",
        client_id: endpoints.clientId,
        code: authorization_code,
        code_verifier,
        redirect_uri: endpoints.redirect
      })
      yield* storeTokens(login, reply, "the login", undefined)
    }),
    logout: store.remove(provider),
    token: getCurrentToken(login, undefined),
    refresh: Effect.flatMap(store.get(provider), (tokens) =>
      getCurrentToken(login, tokens === undefined ? undefined : Redacted.value(tokens.access))
    ).pipe(
      Effect.flatMap((token) =>
        token === undefined
          ? Effect.fail(new LoginError({ message: `not logged in to ChatGPT: ${again}` }))
          : Effect.succeed(token)
      ),
      Effect.mapError(({ message }) =>
        AiError.make({
          module: "CodexLogin",
          method: "refresh",
          reason: new AiError.AuthenticationError({ kind: "ExpiredKey", description: message })
        })
      )
    )
  }
}
