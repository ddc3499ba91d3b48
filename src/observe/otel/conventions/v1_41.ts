/**
 * Names of version 1.41 of the semantic conventions, which are those in code. Two durations come from the repository of
 * the GenAI conventions, because 1.41 has no metrics of tool calls and agents.
 */
import type { Table } from "../Conventions.ts"

/** The names of this version. */
export const table: Table = {
  version: "1.41.1",
  schemaUrl: "https://opentelemetry.io/schemas/1.41.1",
  attributes: {
    "error.type": "error.type",
    "gen_ai.agent.id": "gen_ai.agent.id",
    "gen_ai.agent.name": "gen_ai.agent.name",
    "gen_ai.conversation.id": "gen_ai.conversation.id",
    "gen_ai.input.messages": "gen_ai.input.messages",
    "gen_ai.operation.name": "gen_ai.operation.name",
    "gen_ai.output.messages": "gen_ai.output.messages",
    "gen_ai.prompt.name": "gen_ai.prompt.name",
    "gen_ai.provider.name": "gen_ai.provider.name",
    "gen_ai.request.max_tokens": "gen_ai.request.max_tokens",
    "gen_ai.request.model": "gen_ai.request.model",
    "gen_ai.request.stream": "gen_ai.request.stream",
    "gen_ai.request.temperature": "gen_ai.request.temperature",
    "gen_ai.request.top_p": "gen_ai.request.top_p",
    "gen_ai.response.finish_reasons": "gen_ai.response.finish_reasons",
    "gen_ai.response.id": "gen_ai.response.id",
    "gen_ai.response.model": "gen_ai.response.model",
    "gen_ai.response.time_to_first_chunk": "gen_ai.response.time_to_first_chunk",
    "gen_ai.system_instructions": "gen_ai.system_instructions",
    "gen_ai.token.type": "gen_ai.token.type",
    "gen_ai.tool.call.arguments": "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.id": "gen_ai.tool.call.id",
    "gen_ai.tool.call.result": "gen_ai.tool.call.result",
    "gen_ai.tool.name": "gen_ai.tool.name",
    "gen_ai.tool.type": "gen_ai.tool.type",
    "gen_ai.usage.cache_creation.input_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_read.input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.input_tokens": "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens": "gen_ai.usage.output_tokens",
    "gen_ai.usage.reasoning.output_tokens": "gen_ai.usage.reasoning.output_tokens",
    "http.response.status_code": "http.response.status_code",
    "mcp.method.name": "mcp.method.name",
    "mcp.protocol.version": "mcp.protocol.version",
    "mcp.resource.uri": "mcp.resource.uri",
    "mcp.session.id": "mcp.session.id",
    "network.protocol.name": "network.protocol.name",
    "network.transport": "network.transport",
    "server.address": "server.address",
    "server.port": "server.port"
  },
  agentAttributes: {},
  metrics: {
    "gen_ai.client.operation.duration": "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_to_first_chunk": "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.execute_tool.duration": "gen_ai.execute_tool.duration",
    "gen_ai.invoke_agent.duration": "gen_ai.invoke_agent.duration",
    "mcp.client.operation.duration": "mcp.client.operation.duration"
  },
  tokens: {
    input: [{ name: "gen_ai.client.token.usage", kind: "histogram" }],
    output: [{ name: "gen_ai.client.token.usage", kind: "histogram" }],
    cacheRead: [],
    cacheWrite: [],
    reasoning: [],
    typeLabel: "gen_ai.token.type"
  }
}
