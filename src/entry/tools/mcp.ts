/** Tools of MCP servers. */
export * as McpClient from "../../tool/mcp/SdkClient.ts"
export * as McpConnection from "../../tool/mcp/Connection.ts"
export * as McpServers from "../../tool/mcp/McpServers.ts"
