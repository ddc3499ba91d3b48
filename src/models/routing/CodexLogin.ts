/**
 * The login that models of a ChatGPT subscription want: by a code that the user types into a browser, and renewed
 * before it ends.
 *
 * **Details**
 *
 * {@link Service.login} asks for a code, has it shown, and asks at the given pace whether the user has typed it.
 * {@link Service.token} returns the access token, renewed five minutes before its end. Only one renewal runs at a time,
 * and it looks into the store first: a refresh token is good for one use, and another process may have used it.
 *
 * **Gotchas**
 *
 * The endpoints are the ones that OpenAI's command line program uses; they are not documented as an API and were not
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
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as AiError from "effect/ai/AiError"
import * as Base64Url from "effect/encoding/Base64Url"
import * as HttpBody from "effect/http/HttpBody"
import type * as HttpClient from "effect/http/HttpClient"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import * as TokenStore from "./TokenStore.ts"

/** The login did not come about, or cannot be renewed. `message` says what to do. */
export class LoginError extends Schema.TaggedError<LoginError>("hermes-effect/routing/LoginError")("LoginError", {
  message: Schema.String
}) {}

/** Addresses of the login service, and the program's id there. */
export interface Endpoints {
  /** The address of the service; undefined for OpenAI's own. */
  readonly issuer: string | undefined
  readonly clientId: string
  /** Gives a code. */
  readonly code: string
  /** Reports whether the code was typed. */
  readonly poll: string
  /** Gives tokens. */
  readonly token: string
  /** Page on which the user types the code. */
  readonly page: string
  readonly redirect: string
}

const service = "https://auth.openai.com"

/**
 * The endpoints at an address; OpenAI's own when absent, as its command line program is known to use them, never tried
 * against the real service.
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

/** Addresses at OpenAI. */
export const openAi: Endpoints = makeEndpoints()

/** Reply of the service; the body is undefined if the reply has no body. */
export interface Reply {
  readonly status: number
  readonly body: unknown
}

/** Sends JSON, or a form, and returns the answer regardless of its status. */
export interface Http {
  readonly json: (url: string, body: Readonly<Record<string, string>>) => Effect.Effect<Reply, LoginError>
  readonly form: (url: string, body: Readonly<Record<string, string>>) => Effect.Effect<Reply, LoginError>
}

/** {@link Http} over an HTTP client. */
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

/** Login to ChatGPT. */
export interface Service {
  /** Logs in; `show` displays the page and the code to type there. */
  readonly login: (
    show: (invitation: Invitation) => Effect.Effect<void>
  ) => Effect.Effect<void, LoginError | ConfigError>
  readonly logout: Effect.Effect<void, ConfigError>
  /** The access token, renewed if necessary; undefined if the user is not logged in. */
  readonly token: Effect.Effect<Redacted.Redacted<string> | undefined, LoginError | ConfigError>
  /** Renews the token whether or not it has ended, as a pool of keys wants it. */
  readonly refresh: Effect.Effect<Redacted.Redacted<string>, AiError.AiError>
}

/** The provider that the tokens are for. */
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

/** Reads the end of a token from itself, in milliseconds since 1970. */
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
            message: `the answer to ${what} cannot be read: the login service has changed; update hermes`
          })
      )
    : Effect.fail(new LoginError({ message: `${what} was refused (HTTP ${status}): ${again}` }))

/** Makes the login. */
export const make = (
  store: TokenStore.Service,
  { form, json }: Http,
  endpoints: Endpoints = makeEndpoints()
): Service => {
  const renewing = Semaphore.makeUnsafe(1)

  const storeTokens = Effect.fnUntraced(function* (
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

  const renewTokens = Effect.fnUntraced(function* (tokens: TokenStore.Tokens) {
    // A refresh token goes to the service that issued it, whichever the settings name now.
    const { clientId, token } = tokens.issuer === endpoints.issuer ? endpoints : makeEndpoints(tokens.issuer)
    const reply = yield* form(token, {
      grant_type: "refresh_token",
      client_id: clientId,
      refresh_token: Redacted.value(tokens.refresh)
    })
    return yield* storeTokens(reply, "the renewal of the ChatGPT login", tokens)
  })

  /** Renews the tokens; a refusal is ignored if another process has used the refresh token in the meantime. */
  const renewOrReadLatest = (tokens: TokenStore.Tokens) =>
    Effect.catchTag(renewTokens(tokens), "LoginError", (refusal) =>
      Effect.flatMap(store.get(provider), (latest) =>
        latest === undefined || Redacted.value(latest.refresh) === Redacted.value(tokens.refresh)
          ? Effect.fail(refusal)
          : Effect.succeed(latest.access)
      )
    )

  /** The stored token if it is still good, else a new one. `spent` is one that is known to be no good. */
  const getCurrentToken = (spent: string | undefined) =>
    renewing.withPermit(
      Effect.gen(function* () {
        const tokens = yield* store.get(provider)
        if (tokens === undefined) return undefined
        const now = yield* Clock.currentTimeMillis
        const isGood = tokens.expiresAt - early > now && Redacted.value(tokens.access) !== spent
        return isGood ? tokens.access : yield* Effect.uninterruptible(renewOrReadLatest(tokens))
      })
    )

  const waitForUser = Effect.fnUntraced(function* ({ device_auth_id, interval, user_code }: typeof Code.Type) {
    const pace = Math.max(1, Number(interval ?? 5) || 5)
    while (true) {
      yield* Effect.sleep(`${pace} seconds`)
      const reply = yield* json(endpoints.poll, { device_auth_id, user_code })
      // Both mean that the user has not typed it yet.
      if (reply.status !== 403 && reply.status !== 404) return yield* decodeReply(TypedCode, reply, "the code")
    }
  })

  return {
    login: Effect.fn("CodexLogin.login")(function* (show) {
      const code = yield* decodeReply(
        Code,
        yield* json(endpoints.code, { client_id: endpoints.clientId }),
        "the request for a code"
      )
      yield* show({ page: endpoints.page, code: code.user_code })
      const { authorization_code, code_verifier } = yield* Effect.timeoutOrElse(waitForUser(code), {
        duration: deadline,
        orElse: () => Effect.fail(new LoginError({ message: `the code was not typed within 15 minutes: ${again}` }))
      })
      const reply = yield* form(endpoints.token, {
        grant_type: "authorization_code",
        client_id: endpoints.clientId,
        code: authorization_code,
        code_verifier,
        redirect_uri: endpoints.redirect
      })
      yield* storeTokens(reply, "the login", undefined)
    }),
    logout: store.remove(provider),
    token: getCurrentToken(undefined),
    refresh: Effect.flatMap(store.get(provider), (tokens) =>
      getCurrentToken(tokens === undefined ? undefined : Redacted.value(tokens.access))
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
