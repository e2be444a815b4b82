"""What several backends share, and nothing above them needs: amendments, followed scopes, polled watches, URLs
of servers."""
