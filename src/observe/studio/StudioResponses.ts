/**
 * Responses of the studio: JSON, failures, and the files of its page. The page does not load anything from other
 * origins.
 */
import { script, style } from "#pages/studio"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { Problem } from "./StudioApi.ts"

/** A response. */
export type Response = HttpServerResponse.HttpServerResponse

/** Creates a JSON response. */
export const makeJsonResponse = (value: unknown, status = 200): Response =>
  HttpServerResponse.text(JSON.stringify(value), { status, contentType: "application/json; charset=utf-8" })

/** Creates the response for a failure. The message must state the problem and its remedy. */
export const makeProblem = (status: number, message: string): Response =>
  makeJsonResponse({ error: message } satisfies Problem, status)

const safety = {
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
}

/**
 * Adds headers that protect against other sites. For a response without its own content security policy, the policy
 * does not allow it to load or run anything.
 */
export const addSafetyHeaders = (response: Response): Response => {
  const safe = HttpServerResponse.setHeaders(response, safety)
  return "content-security-policy" in response.headers
    ? safe
    : HttpServerResponse.setHeader(
        safe,
        "content-security-policy",
        "default-src 'none'; frame-ancestors 'none'; sandbox"
      )
}

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; " +
  "form-action 'none'; require-trusted-types-for 'script'; frame-ancestors 'none'"

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>hermes studio</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/studio.css">
<script src="/studio.js" defer></script>
</head>
<body></body>
</html>
`

/** Returns the page file at a path, or `undefined` for an unknown path. */
export const findPageFile = (path: string): Response | undefined => {
  switch (path) {
    case "/":
      return HttpServerResponse.text(page, {
        contentType: "text/html; charset=utf-8",
        headers: { "content-security-policy": policy }
      })
    case "/studio.js":
      return HttpServerResponse.text(script, { contentType: "text/javascript; charset=utf-8" })
    case "/studio.css":
      return HttpServerResponse.text(style, { contentType: "text/css; charset=utf-8" })
    default:
      return undefined
  }
}
